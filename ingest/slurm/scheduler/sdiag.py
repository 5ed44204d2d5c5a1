"""Statistics of Slurm's controller: `sdiag`, as one number per row.

Times are printed in microseconds and stored in seconds, moments as epoch seconds. Statistics by user are private and
left out; those by type of message are stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.delimited.reader import clean
from ingest.errors import MissingColumnError, UnrecognisedInputError, shorten
from ingest.slurm.commands.runner import Fetched, Runner, run
from ingest.slurm.formats.timestamps import read_instants
from ingest.tables import RAW_LIMIT, REJECTS, SCHEDULER_STATS, Parsed

if TYPE_CHECKING:
    from ingest.context import ParseContext

TAKEN: Final = re.compile(r"(?m)^sdiag output at (.+?)\s*$")
"""The line that begins each snapshot."""

_SECTIONS: Final = (
    ("main exit", re.compile(r"Main scheduler exit")),
    ("main", re.compile(r"Main schedule statistics")),
    ("backfill exit", re.compile(r"Backfill exit")),
    ("backfill", re.compile(r"Backfilling stats")),
    ("rpc by user", re.compile(r"Remote Procedure Call statistics by user")),
    ("rpc", re.compile(r"Remote Procedure Call statistics by message type")),
    ("pending rpc", re.compile(r"Pending RPC statistics")),
    ("pending rpc list", re.compile(r"Pending RPCs")),
)
GENERAL: Final = "general"
_LEFT_OUT: Final = frozenset({"rpc by user", "pending rpc list"})
"""By user: people. The list of pending calls: node names, and it is counted above."""

_NUMBER: Final = re.compile(r"(.+?)\s*:\s*(-?\d+(?:\.\d+)?)( microseconds)?")
_MOMENT: Final = re.compile(r"(.+? when|.+? ts|Data since)\s*:?\s+(?:\w{3} \w{3} +\d.*|N/A)")
_EPOCH: Final = re.compile(r"\((\d{8,12})\)\s*$")
_CALL: Final = re.compile(r"([A-Z]\w*)\s+\(\s*\d+\)\s+(\w+:\d.*)")
_TOO_LONG: Final = re.compile(r"\d{19}")
"""slurmctld counts in 64 bits."""

_FIGURE: Final = re.compile(r"(\w+):(\d+)")
_CYCLE_TIMES: Final = frozenset({"last cycle", "max cycle", "mean cycle"})
_CALL_TIMES: Final = frozenset({"ave_time", "total_time", "cycle_last", "cycle_max"})


@dataclass
class _Stats:
    """The values of a text's lines so far."""

    origin: str
    cluster: str
    rows: list[tuple[str, datetime, str, str, float]] = field(default_factory=list)
    refused: list[tuple[str, str, str, int, str, str]] = field(default_factory=list)
    skipped: int = 0

    def line(self, number: int, text: str, at: datetime, section: str) -> None:
        """One line that is neither blank nor a heading."""
        if section in _LEFT_OUT or text == "No pending RPCs":
            self.skipped += 1
        elif _TOO_LONG.search(text):
            self._refuse(number, "a number that has more than 18 digits", text)
        elif match := _CALL.fullmatch(text):
            for name, figure in _FIGURE.findall(match[2]):
                self._add(at, section, f"{match[1]} {name}", int(figure) * (1e-6 if name in _CALL_TIMES else 1.0))
        elif match := _NUMBER.fullmatch(text):
            name = " ".join(match[1].split())
            in_microseconds = match[3] or (section in {"main", "backfill"} and name.lower() in _CYCLE_TIMES)
            self._add(at, section, name, float(match[2]) * (1e-6 if in_microseconds else 1.0))
        elif match := _MOMENT.fullmatch(text):
            moment = _EPOCH.search(text)
            if moment is None:  # not yet, or a version that prints local time only
                self.skipped += 1
            else:
                self._add(at, section, match[1], float(moment[1]))
        else:
            self._refuse(number, "not a number of sdiag", text)

    def _refuse(self, number: int, reason: str, text: str) -> None:
        self.refused.append((self.cluster, "slurm.diag", self.origin, number, reason, text[:RAW_LIMIT]))

    def _add(self, at: datetime, section: str, name: str, value: float) -> None:
        self.rows.append((self.cluster, at, section, name, value))


def parse_diag(data: bytes, context: ParseContext) -> Parsed:
    """The numbers of `sdiag`, of one snapshot or of several in one file.

    Raises:
        UnrecognisedInputError: It is not the output of sdiag.
        MissingColumnError: The cluster's name is missing.
        TimeZoneError: An old sdiag printed local time only, and no zone is set.
    """
    cleaned, warnings = clean(data, context.origin)
    text = cleaned.decode()
    if TAKEN.search(text) is None:
        message = f"{context.origin}: not the output of sdiag; it begins with\n  {shorten(text[:200])}"
        raise UnrecognisedInputError(message)
    if not context.cluster:
        message = f"{context.origin}: sdiag does not name its cluster; name it with --cluster NAME"
        raise MissingColumnError(message)
    stats = _Stats(context.origin, context.cluster)
    at: datetime | None = None
    section = GENERAL
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if taken := TAKEN.fullmatch(line.rstrip()):
            at, section = _taken_at(taken[1], context), GENERAL
        elif not stripped or set(stripped) == {"*"}:
            continue
        elif heading := next((name for name, pattern in _SECTIONS if pattern.match(line)), None):
            section = heading
        elif at is None:
            stats.refused.append(
                (context.cluster, "slurm.diag", context.origin, number, "it precedes sdiag's output", stripped)
            )
        else:
            stats.line(number, stripped, at, section if line[0].isspace() else GENERAL)
    every = pl.DataFrame(stats.rows, schema=SCHEDULER_STATS, orient="row")
    once = every.unique(["cluster", "ts", "section", "name"], keep="first", maintain_order=True)
    moments = [row[1] for row in stats.rows]
    return Parsed(
        source="slurm.diag",
        clusters=frozenset({context.cluster}),
        frames={"scheduler_stats": once},
        rejects=pl.DataFrame(stats.refused, schema=REJECTS, orient="row"),
        rows_read=every.height + stats.skipped + len(stats.refused),
        rows_loaded=once.height,
        rows_duplicate=every.height - once.height,
        rows_skipped=stats.skipped,
        rows_rejected=len(stats.refused),
        columns=sorted(once["section"].unique()),
        warnings=warnings,
        covers_from=min(moments, default=None),
        covers_until=max(moments, default=None),
    )


def _taken_at(text: str, context: ParseContext) -> datetime | None:
    """The time of a snapshot: sdiag adds the epoch; an old version prints local time only."""
    if epoch := _EPOCH.search(text):
        return datetime.fromtimestamp(int(epoch[1]), UTC)
    try:
        local = datetime.strptime(text, "%a %b %d %H:%M:%S %Y").isoformat()  # noqa: DTZ007 - read_instants applies the zone
    except ValueError:
        return context.until
    moment: datetime | None = read_instants(
        pl.Series("sdiag output at", [local]), timezone=context.timezone, origin=context.origin
    ).early[0]
    return moment


def fetch_diag(runner: Runner) -> Fetched:
    """Query the controller for its statistics."""
    hint = "slurmctld seems to be down or unreachable: check `scontrol ping`.\nThe other parts are loaded all the same."
    return run(runner, ["sdiag"], hint=hint)
