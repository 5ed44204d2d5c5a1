"""Folders of logs: `trackside ingest runlog wandb/` loads the logs below it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from ingest.errors import InputError
from ingest.files.input import Input
from ingest.runlog.formats.registry import may_be_run_log, recognised

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ingest.runlog.text_format import TextFormat

SEARCHED: Final = 1 << 24
"""Bytes in which a step of a text log is searched."""

_OF_WANDB: Final = re.compile(r"(^|/)(offline-)?run-\d{8}_\d{6}-[^/]*/")
"""W&B's folder of a run: what the program printed is in it once more."""

NO_LOGS: Final = frozenset({".git", "__pycache__", "node_modules", "site-packages"})
"""Folders of code that often lie beside logs: looking for steps in a virtual environment takes a minute."""

RUN_LOGS: Final = (".jsonl", ".jsonl.gz")
"""Endings of the names of run logs."""


def logs_below(names: Iterable[str], formats: Sequence[TextFormat] = ()) -> list[str]:
    """The same names, but for a folder the logs below it, in the order of their names.

    A file below a folder is a log if its name ends like a run log's (and it is no other JSON), if its contents begin
    like a format's that is known, or if a text format has a step in its first `SEARCHED` bytes. Folders called as in
    `NO_LOGS` are passed over, unless they are named themselves. Links are not followed: W&B's `latest-run` is one to a
    folder beside it. A folder without logs is returned itself, for the message that it is none.
    """
    return [each for name in names for each in (list(_below(name, formats)) or [name])]


def without_logs(folder: str, name: str) -> str:
    """The message for a folder without logs."""
    n_files = sum(len(files) for _, _, files in os.walk(folder))
    return (
        f"{name}: none of the {n_files:,} files below this folder is a log that is known (text: with a step in its "
        f"first {SEARCHED >> 20} MB).\nName a file to see what was searched in it: trackside ingest runlog {name}/FILE"
    )


def _below(folder: str, formats: Sequence[TextFormat]) -> Iterator[str]:
    """The logs below a folder; none where it has none, or is a file."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - NO_LOGS)
        for file in sorted(files):
            path = os.path.join(place, file)  # noqa: PTH118 - names may be any bytes
            if not os.path.islink(path) and is_log(path, path, formats):  # noqa: PTH114 - as above
                yield path


def is_log(path: str, name: str, formats: Sequence[TextFormat] = ()) -> bool:
    """Whether a file below a folder, or in an archive, where it is called so, is a log.

    Args:
        path: where it is.
        name: how it is called.
        formats: text formats besides those that are built in.
    """
    is_called_one = name.endswith(RUN_LOGS)
    try:
        with Input(path) as source:
            if is_called_one and may_be_run_log(source.head):
                return True
            is_text = b"\0" not in source.head and not _OF_WANDB.search(name)
            return recognised(source.head) is not None or (is_text and _has_steps(source, formats))
    except (InputError, OSError):
        return is_called_one


def _has_steps(source: Input, formats: Sequence[TextFormat]) -> bool:
    """Whether a text format has a step in the beginning of a file."""
    from ingest.runlog.formats.text.scan import scan  # noqa: PLC0415 - only for folders
    from ingest.runlog.text_format import with_builtin  # noqa: PLC0415 - likewise

    beginning = next(iter(source.with_short_lines()), b"")[:SEARCHED]
    return scan([beginning], source.name, with_builtin(formats))[0].has_steps
