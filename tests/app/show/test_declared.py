"""What is read of the questions' files without importing them is what their entries contain."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from app import manual
from app.api import QUESTIONS
from app.show import declared as declarations
from app.show.declared import declared

if TYPE_CHECKING:
    from pathlib import Path


def test_declared_questions_are_the_registered_ones_in_one_order() -> None:
    assert list(declared()) == list(QUESTIONS)
    for name, each in declared().items():
        entry = QUESTIONS[name]
        assert tuple(each) == (
            entry.name,
            entry.summary,
            entry.help,
            entry.by,
            entry.takes,
            entry.by_of_run,
            entry.position,
        )
        assert each.splits == entry.splits


def test_positions_are_unique_so_that_the_order_is_decided() -> None:
    positions = [each.position for each in declared().values()]
    assert positions == sorted(set(positions))


def test_the_manual_describes_the_questions_in_the_same_order() -> None:
    sections = [each.slug for each in manual.find("how-to/questions").sections if each.level == 3]
    assert sections == list(declared())


def test_listing_questions_imports_none_of_them() -> None:
    program = "import sys; from app.show.declared import declared; declared(); print('polars' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("text", ["", "def one(): ...\n", '@other("a", "b")\ndef one(): ...\n'])
def test_a_file_without_a_question_is_an_error_that_names_it(text: str, tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"one\.py declares no question"):
        declarations._read(str(file))  # noqa: SLF001 - the files of the package are all right


def test_a_question_without_a_position_is_last(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text('"""D."""\n\n\n@question("one", "what", help="h", by=("a",))\ndef one() -> None: ...\n', "utf-8")
    entry = declarations._read(str(file))  # noqa: SLF001 - as above
    assert entry == ("one", "what", "h", ("a",), (), (), declarations.LAST)
