"""Folders of logs: `trackside ingest runlog wandb/` loads the logs below it."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from ingest.counted import counted
from ingest.delimited.reader import utf_16
from ingest.errors import DamagedStreamError, InputError, TruncatedInputError, shorten
from ingest.files.archive import is_archive
from ingest.files.input import Input, as_text
from ingest.runlog.formats.registry import marked, may_be_run_log, recognised
from ingest.runlog.translation import SEARCHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ingest.runlog.text_format import TextFormat

_OF_WANDB: Final = re.compile(r"(^|/)(offline-)?run-\d{8}_\d{6}-[^/]*/")
"""W&B's folder of a run; it has a second copy of the program's output."""

NO_LOGS: Final = frozenset({".git", "__pycache__", "node_modules", "site-packages"})
"""Folders of code that often lie beside logs: looking for steps in a virtual environment takes a minute."""

RUN_LOGS: Final = (".jsonl", ".jsonl.gz")
"""Endings of the names of run logs."""

SHOWN: Final = 3
"""Files that a message names for each reason of passing files over."""


@dataclass
class SkippedFiles:
    """Files below folders and in archives that are not read, by the reason."""

    names: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, reason: str) -> None:
        """Note a file."""
        self.names.setdefault(reason, []).append(as_text(name))

    @property
    def text(self) -> str:
        """The number of files for each reason, and the first of them.

        >>> SkippedFiles({"links": ["logs/latest-run"], "empty files": ["a", "b", "c", "d"]}).text
        'passed over: empty files: 4 (a, b, c and 1 more); links: 1 (latest-run)'
        """
        parts = []
        for reason, names in sorted(self.names.items()):
            shown = ", ".join(shorten(PurePath(name).name, 40) for name in names[:SHOWN])
            more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
            parts.append(f"{reason}: {len(names):,} ({shown}{more})")
        return f"passed over: {'; '.join(parts)}"


def logs_below(
    names: Iterable[str],
    formats: Sequence[TextFormat] = (),
    passed_over: SkippedFiles | None = None,
    *,
    enters: Callable[[str], None] = lambda _folder: None,
) -> list[str]:
    """The names, with each folder replaced by the logs below it, in the order of their names.

    A file below a folder is a log if its name ends like a run log's (and it is no other JSON), if its contents begin
    like a known format, or if MLPerf has a line or a text format a step in its first `SEARCHED` bytes. One
    that may not be read counts as a log, too: its contents are unknown. Folders in `NO_LOGS` are passed over,
    unless they are named themselves. Links are not followed: W&B's `latest-run` is one to a folder beside it. Archives
    are read if they are named: data sets are archives, too. A folder without logs is returned itself, for the message
    that it is none.

    Args:
        names: of files and folders.
        formats: text formats besides those that are built in.
        passed_over: gets the files that are no logs.
        enters: called with each folder before its files are searched: that takes minutes where there are many.
    """
    passed = SkippedFiles() if passed_over is None else passed_over
    return [each for name in names for each in (list(_below(name, formats, passed, enters)) or [name])]


def without_logs(folder: str, name: str) -> str:
    """The message for a folder without logs, or one that may not be read."""
    closed: list[OSError] = []
    n_files = sum(len(files) for _, _, files in os.walk(folder, onerror=closed.append))
    if closed and not n_files:
        return f"{name}: {closed[0].strerror}"
    return (
        f"{name}: none of {counted(n_files, 'file')} below this folder is a known log (text: with a step "
        f"in its first {SEARCHED >> 20} MB).\n"
        f"Name a file to see what was searched in it: trackside ingest runlog {name}/FILE"
    )


def _below(
    folder: str, formats: Sequence[TextFormat], passed: SkippedFiles, enters: Callable[[str], None]
) -> Iterator[str]:
    """The logs below a folder, and the folders below it that may not be read; none where it has none, or is a file."""
    closed: list[OSError] = []
    for place, folders, files in os.walk(folder, onerror=closed.append):
        enters(place)
        for name in sorted(set(folders) & NO_LOGS):
            passed.add(name, "folders of code")
        for name in sorted(set(folders) - NO_LOGS):
            if os.path.islink(os.path.join(place, name)):  # noqa: PTH114, PTH118 - names may be any bytes
                passed.add(name, "links")
        folders[:] = sorted(set(folders) - NO_LOGS)
        for file in sorted(files):
            path = os.path.join(place, file)  # noqa: PTH118 - names may be any bytes
            if (reason := _skip_reason(path, formats)) is None:
                yield path
            else:
                passed.add(path, reason)
    yield from (str(error.filename) for error in closed if error.filename != folder)


def _skip_reason(path: str, formats: Sequence[TextFormat]) -> str | None:
    """Why a file below a folder is not read; None if it is."""
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return "links"
    return "pipes and devices" if not stat.S_ISREG(mode) else why_no_log(path, path, formats)


def why_no_log(path: str, name: str, formats: Sequence[TextFormat] = ()) -> str | None:
    """Why a file below a folder, or in an archive, where it is called so, is no log to read; None if it is one.

    Args:
        path: where it is.
        name: how it is called.
        formats: text formats besides those that are built in.
    """
    is_called_one = name.endswith(RUN_LOGS)
    try:
        with Input(path) as source:
            is_log = (is_called_one and may_be_run_log(source.head)) or recognised(source.head) is not None
            return None if is_log else _why_no_text(source, name, formats)
    except (DamagedStreamError, TruncatedInputError):
        return None if is_called_one else "damaged packed files"
    except (InputError, OSError):
        return None  # its reader reports why it cannot be read


def _why_no_text(source: Input, name: str, formats: Sequence[TextFormat]) -> str | None:
    """Why a file is no log of a text format; None if it is one."""
    if is_archive(source.head):
        return "archives, which are read if they are named"
    if _OF_WANDB.search(name):
        return "other files in W&B's folders"
    if not source.head.strip():
        return "empty files"
    return None if may_be_text(source.head) and _has_steps(source, formats) else "files without a step of training"


def may_be_text(head: bytes) -> bool:
    r"""Whether a file that begins like this may be text: also UTF-16, or with the NULs of a lost power in it.

    >>> [may_be_text(head) for head in (b"step 1", b"step 1\0\0", "step".encode("utf-16"), b"\x89PNG\r\n\x1a\n\0\x02")]
    [True, True, True, False]
    >>> may_be_text("step 1\n".encode("utf-16-le")), may_be_text("\1\2".encode("utf-16"))
    (True, False)
    """
    if (encoding := utf_16(head)) is not None:
        head = head.decode(encoding, errors="replace").encode()
    elif b"\0" not in head:
        return True
    rest = head.replace(b"\0", b"")
    return len(rest.translate(None, _NO_TEXT)) == len(rest)


_NO_TEXT: Final = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b"))
"""Control characters that no program prints."""


def _has_steps(source: Input, formats: Sequence[TextFormat]) -> bool:
    """Whether MLPerf has a line, or a text format a step, in the beginning of a file: most have one in their head."""
    from ingest.runlog.formats.text.scan import scan  # noqa: PLC0415 - only for folders
    from ingest.runlog.formats.text.unusual_times import with_usual_times  # noqa: PLC0415 - likewise
    from ingest.runlog.text_format import with_builtin  # noqa: PLC0415 - likewise

    forms = with_builtin(formats)
    lines = source.head[: source.head.rfind(b"\n") + 1]
    if scan(with_usual_times([lines], source.name, forms), source.name, forms)[0].has_steps:
        return True
    text = next(iter(source.with_short_lines()), b"")[:SEARCHED]
    usual = with_usual_times([text], source.name, forms)
    return text != lines and (marked(text) is not None or scan(usual, source.name, forms)[0].has_steps)
