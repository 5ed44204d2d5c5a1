"""Formats of logs: how each is recognised, and how its lines become those of a run log."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from ingest.load_warnings import LoadWarning
    from ingest.runlog.text_format import TextFormat

HEAD: Final = 1 << 16
"""Bytes at the beginning of a log by which its format must be recognisable."""

SEARCHED: Final = 1 << 24
"""Bytes in which lines between other output are searched: those with a `mark`, and steps of text logs in a folder."""

Fields = dict[str, Any]


class RefusedLine(NamedTuple):
    """A line of a log that cannot be used: its number (from 1), why, and its text."""

    line: int
    reason: str
    raw: str


@dataclass(frozen=True)
class LogRequest:
    """Values that a caller states for logs that do not record them.

    Attributes:
        facts: of the `run` line, by the names of `ingest.runlog.lines.Run`; what a log records goes before them.
        timezone: zone of times that carry none; None: unknown.
        begin: when the log begins, for logs without times (or without dates); None: unknown.
        year: the year in which a log begins whose times have none; None: unknown.
        around: a time that the log is close to, such as the start of its job; None: unknown.
        formats: text formats besides those that are built in.
        several: whether other logs are loaded with it, so that `begin` is not of this one alone.
        file: the log's name; without its endings it is the run id of a log that names no run.
        written_at: when the file was last written; None: unknown (standard input, a file of an archive). It only goes
            into messages: no step is placed by it.
        facts_prevail: whether the facts go before what an MLPerf log records: they are its submission's.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    timezone: str | None = None
    begin: datetime | None = None
    year: int | None = None
    around: datetime | None = None
    formats: tuple[TextFormat, ...] = ()
    several: bool = False
    file: str = ""
    written_at: datetime | None = None
    facts_prevail: bool = False

    def run_facts(self, **recorded: object) -> dict[str, Any]:
        """Facts of a `run` line: ids that the log records go before its file's name, and those stated before both."""
        ids = {name: value for name, value in recorded.items() if value is not None}
        return {"run_id": _run_id(self.file), **ids, **self.facts}


_ORDINARY: Final = {"stdout", "stderr", "trainer_state", "trainer_log", "running_log", "metrics"}
"""Names, without endings, that launchers and frameworks give to every log."""

_UNNAMED: Final = re.compile(r"attempt_\d+|\d+|checkpoint-\d+|\.\.|/")
"""Folders whose names are of no run: torchrun's of attempts and ranks, Hugging Face's of checkpoints."""

_VERSION: Final = re.compile(r"version_\d+")
"""Lightning's folders of runs."""


def _run_id(file: str) -> str:
    """The name of a log without its endings; of the folder that has a name where the log has none of its own.

    >>> _run_id("logs/llama-8b.out.gz"), _run_id("logs/llama-8b/attempt_0/3/stdout.log"), _run_id("stdout.log")
    ('llama-8b', 'llama-8b', 'stdout')
    >>> _run_id("out/llama-8b/checkpoint-500/trainer_state.json"), _run_id("lightning_logs/version_3/metrics.csv")
    ('llama-8b', 'lightning_logs/version_3')
    """
    path = PurePath(file)
    own = path.name.partition(".")[0]
    if own not in _ORDINARY:
        return own
    if Path(file).is_file():
        path = Path(file).absolute()
    names = [name for name in path.parent.parts if not _UNNAMED.fullmatch(name)]
    if not names:
        return own
    return "/".join(names[-2:]) if _VERSION.fullmatch(names[-1]) else names[-1]


@dataclass
class Findings:
    """Findings of a reader besides the run log that it makes. They are complete once the log is read to its end.

    Attributes:
        refused: lines that cannot be used.
        n_duplicates: lines that repeat another one (of another rank, or written twice).
        warnings: for the person who loads the log.
        stated: facts for a run log, taken where its `run` lines have none.
    """

    refused: list[RefusedLine] = field(default_factory=list)
    n_duplicates: int = 0
    warnings: list[LoadWarning] = field(default_factory=list)
    stated: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Translation:
    """Lines of a run log in the order of the lines that they were made of, whose numbers they name (`line`).

    Attributes:
        lines: of the run log, by the numbers of those; line 0 is one before the first.
    """

    lines: dict[int, list[bytes | Iterable[Fields]]] = field(default_factory=dict)

    def put(self, at: int, fields: Fields) -> None:
        """Write a line of the run log, made of line `at`; unknown values are left out."""
        self.lines.setdefault(at, []).append(_encoded(_known(fields) | {"line": at}))

    def put_all(self, at: int, several: Iterable[Fields]) -> None:
        """Write the lines that were made of line `at`, only as they are requested: they may be many."""
        self.lines.setdefault(at, []).append(several)

    def chunks(self) -> Iterator[bytes]:
        """The run log; each item has the lines that were made of one line."""
        for at in sorted(self.lines):
            for made in self.lines[at]:
                if isinstance(made, bytes):
                    yield made
                    continue
                lines = (_encoded(_known(fields) | {"line": at}) for fields in made)
                while some := b"".join(itertools.islice(lines, _AT_ONCE)):
                    yield some


_AT_ONCE: Final = 1_000
"""Lines that are made at a time."""


def _known(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if value is not None}


def _encoded(fields: Fields) -> bytes:
    return msgspec.json.encode(fields) + b"\n"


@dataclass(frozen=True)
class LogFormat:
    """A format of logs.

    Attributes:
        name: in messages.
        title: a few words for people.
        recognise: whether the first `HEAD` bytes are of this format.
        read: the log, which comes in chunks, as chunks of a run log, whose lines may name the `line` of the log that
            they were made of.
        is_binary: whether it is no text: nothing in it is a line.
        mark: what each of its lines has, if they are single ones of a program's output, which a collector may put into
            JSON; they may begin behind the `HEAD`.
    """

    name: str
    title: str
    recognise: Callable[[bytes], bool]
    read: Callable[[Iterable[bytes], LogRequest, Findings], Iterator[bytes]]
    is_binary: bool = False
    mark: bytes = b""
