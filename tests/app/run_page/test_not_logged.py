"""Steps that a killed process executed and no log has: the page of a run says that they are missing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from app.cli import main as cli

if TYPE_CHECKING:
    from pathlib import Path

Line = dict[str, Any]


def process(run_id: str, t: int, numbers: range, *, every: int = 1) -> list[Line]:
    """What one process logged of steps of a second; of every n-th alone there is a loss."""
    steps: list[Line] = [
        {"type": "step", "step": n, "t": t + n - numbers[0] + 1, "duration_s": 1.0}
        | ({"loss": 2.5} if n % every == 0 else {})
        for n in numbers
    ]
    return [{"type": "run", "v": 1, "t": t, "run_id": run_id}, *steps]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("not_logged")
    begin = 1_790_812_800
    logs = {
        "whole": process("whole", begin, range(1, 31)) + process("whole", begin + 100, range(21, 41)),
        "killed": process("killed", begin, range(1, 16)) + process("killed", begin + 100, range(21, 41)),
        "sparse": process("sparse", begin, range(5, 26), every=5)
        + process("sparse", begin + 100, range(25, 41), every=5),
        "middle": process("middle", begin, range(25, 41), every=5),
        "job": process("41", begin, range(5, 26), every=5),
        "next_job": process("42", begin + 100, range(25, 41), every=5),
        "version_0": process("logs/version_0", begin, range(5, 26), every=5),
        "version_1": process("logs/version_1", begin + 100, range(25, 41), every=5),
    }
    for name, lines in logs.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert cli.main(["ingest", "runlog", str(folder), "--warehouse", str(folder / "w"), "--quiet"]) == 0
    return folder / "w"


@pytest.mark.parametrize(
    ("run_id", "begins", "others"),
    [
        ("whole", "50 executed (1 to 40), 10 lost, ", ()),
        (
            "killed",
            "35 executed (1 to 40), none lost of those that are logged, ",
            ("5 steps between its processes: in no log that is loaded", "how many more were lost is unknown"),
        ),
        (
            "sparse",
            "37 executed (5 to 40), 1 lost of those that are logged, ",
            ("up to 4 more were run again: not every step has a value",),
        ),
        (
            "middle",
            "16 executed (25 to 40), none lost, ",
            ("the log begins at step 25: what was executed before is in another run's log, or in none",),
        ),
        (
            "logs/version_1",
            "16 executed (25 to 40), none lost, ",
            (
                "the log begins at step 25: ",
                "run logs/version_0 had come to step 25 before: it is unknown whether both are one",
            ),
        ),
    ],
)
def test_steps_in_no_log_are_counted_on_the_page(
    warehouse: Path, capsys: pytest.CaptureFixture[str], run_id: str, begins: str, others: tuple[str, ...]
) -> None:
    assert cli.main(["run", run_id, "--warehouse", str(warehouse)]) == 0
    facts = " ".join(capsys.readouterr().out.partition("\nSteps ")[2].partition("\nJob goodput")[0].split())
    assert facts.startswith(begins)
    assert (": " in facts) == bool(others)
    assert all(text in facts for text in others)


def test_page_has_options_for_tokens_the_log_lacks(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "middle", "--warehouse", str(warehouse)]) == 0
    assert "--set seq_len=8192 --set global_batch=512" in " ".join(capsys.readouterr().out.split())


def test_a_number_alone_is_no_name_that_another_is_like(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "42", "--warehouse", str(warehouse)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "the log begins at step 25: " in printed
    assert "had come to step" not in printed
