"""A run log while it is read: its sessions, its events, the steps of a block, and the lines that were refused."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.future import AHEAD
from ingest.runlog.lines import (
    CUT,
    STRICT,
    Ckpt,
    Line,
    LoggedStep,
    RefusedLineError,
    RejectedLine,
    Run,
    convert,
    event_row,
    is_of_run,
    save_row,
    text_or_none,
)
from ingest.runlog.session import Session, moment, names_of, session_of
from ingest.runlog.steps import StepDays
from ingest.tables import RAW_LIMIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.load_warnings import LoadWarning
    from ingest.runlog.log_warnings import Implausible

MAX_TAILS: Final = 20
"""Places in a damaged line at which a whole line is searched."""


@dataclass
class ParsedLog:
    """A run log while it is read. `steps` and `step_lines` are those of the block that is being read."""

    origin: str
    cluster: str | None
    cluster_of_jobs: str | None
    latest_us: float = math.inf
    sessions: list[Session] = field(default_factory=list)
    steps: list[LoggedStep] = field(default_factory=list)
    step_lines: list[int] = field(default_factory=list)
    days: StepDays = field(default_factory=StepDays)
    implausible: dict[str, Implausible] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    refused: list[tuple[int, str, str, str | None]] = field(default_factory=list)
    warnings: list[LoadWarning] = field(default_factory=list)
    stated: Mapping[str, Any] = field(default_factory=dict)
    not_taken: set[str] = field(default_factory=set)
    first_line: str = ""
    open: bool = False
    lost_at: int | None = None
    n_read: int = 0
    n_skipped: int = 0
    n_losses: int = 0
    n_damaged: int = 0

    def take_block(self, first: int, lines: list[bytes]) -> None:
        """Read the lines of a block, the first of which has this number; nearly all are plainly right, and quick."""
        try:
            parsed = list(map(STRICT.decode, lines))
        except (msgspec.DecodeError, RecursionError):
            for number, line in enumerate(lines, first):
                self.take(number, line)
        else:
            self._add_all(first, parsed, lines)

    def _add_all(self, first: int, parsed: list[Line], lines: list[bytes]) -> None:
        """Book lines that are plainly right: runs of steps at once, other lines one by one."""
        self.n_read += len(parsed)
        begin = 0
        for place in [*(place for place, kind in enumerate(map(type, parsed)) if kind is not LoggedStep), len(parsed)]:
            alone = range(begin, place)
            if self.open:
                self.steps.extend(parsed[begin:place])  # type: ignore[arg-type]  # they are steps
                self.step_lines.extend(range(first + begin, first + place))
                alone = range(0)
            for each in (*alone, *([place] if place < len(parsed) else [])):
                self._try_to_add(first + each, parsed[each], lines[each])
            begin = place + 1

    def _try_to_add(self, number: int, line: Line, raw: bytes) -> None:
        try:
            self.add(number, line)
        except RefusedLineError as error:
            self.refuse(number, str(error), raw)

    def take(self, number: int, line: bytes) -> None:
        """Read one line of a block in which not all are plainly right."""
        try:
            parsed = STRICT.decode(line)
        except (msgspec.DecodeError, RecursionError):
            if line.strip():
                self._take_with_care(number, line)
            return
        self.n_read += 1
        self._try_to_add(number, parsed, line)

    def _take_with_care(self, number: int, line: bytes) -> None:
        self.n_read += 1
        try:
            self.add(number, self._understood(number, line))
        except RefusedLineError as error:
            self.refuse(number, str(error), line)
            if is_of_run(line):
                self.open, self.lost_at = False, number

    def add(self, number: int, line: Line) -> None:
        """Book one line that was understood."""
        if isinstance(line, RejectedLine):
            self.refuse(number, line.reason, line.raw.encode())
            return
        if isinstance(line, Run):
            self.open, self.lost_at = False, number
            run = self._completed(line)
            cluster = self.cluster if text_or_none(run.job_id) is None else self.cluster_of_jobs
            session = session_of(run, cluster, self.origin, len(self.steps), self.warnings)
            self._is_past(session.began)
            self.sessions.append(session)
            self.open = True
            return
        if not self.open:
            raise RefusedLineError(
                "it comes before any `run` line, so it belongs to no run"
                if self.lost_at is None
                else f"the `run` line that it belongs to was refused (line {self.lost_at})"
            )
        if isinstance(line, LoggedStep):
            self.steps.append(line)
            self.step_lines.append(number)
            return
        session = self.sessions[-1]
        event = save_row(line) if isinstance(line, Ckpt) else event_row(line)
        moments = [event[name] for name in ("ts", "ended_at", "durable_at") if event[name] is not None]
        self._is_past(*moments)
        session.ended = max(session.ended, *moments)
        if session.rank:
            self.n_skipped += 1
        else:
            self.events.append(names_of(session) | event)

    def _completed(self, run: Run) -> Run:
        """A `run` line with the facts that it lacks and the caller states."""
        lacking = {name: value for name, value in self.stated.items() if getattr(run, name, value) is None}
        self.not_taken |= {
            name for name, value in self.stated.items() if name not in lacking and getattr(run, name, value) != value
        }
        return msgspec.structs.replace(run, **lacking) if lacking else run

    def _is_past(self, *moments: int) -> None:
        if max(moments) > self.latest_us:
            raise RefusedLineError(in_the_future(max(moments)))

    def refuse(self, number: int, reason: str, line: bytes, session: int = -1) -> None:
        """Keep a line that cannot be used, under the cluster of its session."""
        cluster = self.sessions[session].row["cluster"] if self.sessions else self.cluster
        self.refused.append((number, reason, line.decode(errors="replace")[:RAW_LIMIT], cluster))

    def _understood(self, number: int, line: bytes) -> Line:
        """A line that was not plainly right: numbers as text, no `type`, NaN, cut, or nonsense."""
        try:
            parsed = msgspec.json.decode(line)
        except RecursionError:
            raise RefusedLineError("objects within objects without end") from None
        except msgspec.DecodeError as error:
            if b"NaN" in line or b"Infinity" in line or "range" in str(error):
                return self._with_nan(line, error)
            return self._after_a_cut(number, line, error)
        return convert(parsed)

    def _with_nan(self, line: bytes, error: Exception) -> Line:
        """Python's json module writes NaN, which is not JSON. A loss may be one; nothing else may."""
        try:
            parsed = json.loads(line)
            msgspec.json.encode(parsed)  # fails on halves of characters, which Python's json lets through
        except (ValueError, RecursionError):
            raise RefusedLineError(f"not JSON: {error}") from None
        if isinstance(parsed, dict) and isinstance(parsed.get("loss"), float) and not math.isfinite(parsed["loss"]):
            parsed["loss"] = None
            self.n_losses += 1
        return convert(parsed)

    def _after_a_cut(self, number: int, line: bytes, error: Exception) -> Line:
        """A killed process leaves no line end: the next one's first line may stand right behind the cut one."""
        at = 0
        for _ in range(MAX_TAILS):
            at = line.find(b'{"', at + 1)
            if at < 0:
                break
            try:
                parsed = convert(msgspec.json.decode(line[at:]))
            except (msgspec.DecodeError, RecursionError, RefusedLineError):
                continue
            self.refuse(number, CUT, line[:at])
            self.n_read += 1
            if is_of_run(line[:at]):
                self.open, self.lost_at = False, number
            return parsed
        raise RefusedLineError(CUT if "truncated" in str(error) else f"not JSON: {error}")


def in_the_future(us: float) -> str:
    """Why a line of this time (microseconds since 1970) is refused."""
    return f"it {AHEAD}: {moment(int(us)):%Y-%m-%dT%H:%M:%SZ}"
