r"""Run logs: what a training loop records of itself. The format, version 1, is a public contract, described here.

A run log is a file of JSON objects, one a line, in UTF-8, appended to as training goes on; gzip is accepted. The
recorder (`trackside recorder > trackside_log.py`) writes it, and so can anything else. Every object has a `type`:

`run` begins a session. Each process start writes one; a file may hold the sessions of many restarts.

    {"type":"run","v":1,"t":1790812800.5,"run_id":"llama-8b","cluster":"alpha","scheduler":"slurm","job_id":"29",
     "restart_count":0,"node":"n1","rank":0,"world":16,"gpu_model":"H100 SXM","n_gpus":16,"dtype":"bf16",
     "params":8.03e9,"params_active":8.03e9,"layers":32,"heads":32,"head_dim":128,"seq_len":8192,
     "flops_per_token":null,"flop_convention":"palm_full",
     "hidden":4096,"ffn_hidden":14336,"kv_heads":8,"vocab":128256,"gated":true,"tied":false,"recompute":"none"}

    `t` and `run_id` must be there. `job_id` is the scheduler's raw id (SLURM_JOB_ID, also in an array). `n_gpus` are
    the GPUs that train. `params_active` are the parameters active per token, all if it is left out. `flops_per_token`
    is for those who count themselves; `flop_convention` then names the way. A `cluster` that is left out comes from
    the load (`--cluster`), a `scheduler` is slurm if there is a job id and none otherwise, a `rank` is 0.

    All facts of the model are optional; each FLOP convention needs some of it. `attention_layers` are the layers
    with full attention where those are not all `layers` (hybrid models). A mixture of experts has `experts` routed
    ones in a layer, of which a token is sent to `top_k`, `shared_experts` that all tokens go through,
    `expert_ffn_hidden` where an expert is not as wide as `ffn_hidden`, and `expert_layers` where not all layers have
    experts; `expert_params` are the parameters of all routed experts together, if you know them. With them `params`
    alone will do: the active ones follow. `recompute` is what the backward pass computes again: `none`, `selective`
    or `full` (activation checkpointing); without it executed FLOP (HFU) are unknown. `dtype` names all types that
    matrix products are done in: `fp8+bf16`. `recipe` names how the model is trained, `global_batch` is the samples of
    a step on all GPUs together, `learning_rate` the peak of its schedule, and `time_factor` what a benchmark's rules
    multiply the time to train by.

`step` is a training step that was finished. `t` is its beginning. Lines of a step that was cut off are not written.

    {"type":"step","step":17,"t":1790812861.25,"duration_s":1.93,"tokens":1048576,"loss":2.31}

    `step` and `t` must be there. A step that is run again after a restart has its old number. A loss that is NaN is
    stored as missing; the step counts.

`ckpt` is a checkpoint being saved.

    {"type":"ckpt","step":17,"begin":1790812870,"end":1790812881.5,"durable":true,"blocking":true}

    `durable` is the time from which it is safe, `true` for from its end on, or null (or false, or left out) while
    it is not confirmed. `blocking` is whether training waited from `begin` to `end` (true if left out). Where
    the confirmation comes later, the line is written again with the same `step` and `begin` and more known.

`event` is anything else that takes time.

    {"type":"event","kind":"checkpoint_load","begin":1790812801,"end":1790812850,"step":16,"detail":null}

    Kinds with a meaning: `init`, `compile`, `data` (training waits for data), `checkpoint_load` (with the step it
    goes on from), `eval`. `step_start` (with the step, and no end) marks that a step begins; the `step` line follows
    when it is finished. Other names are stored as they are.

Times are seconds since 1970 (a whole or a broken number) or ISO 8601 text with a zone. Unknown fields are
ignored. Where `type` is left out the fields decide: `v` and `run_id` make a run; `begin` and `step` without `kind` a
checkpoint; `kind` and `begin` an event; `step` and `t` a step. Only the lines of rank 0 count; of other ranks the
session is kept and their other lines are skipped, since rank 0's step is the step of all.

A line that cannot be used is refused with its number and the reason. A process that was killed while writing leaves a
cut line; it is refused as that, and a whole line glued to it is saved.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from ingest.delimited.reader import damaged
from ingest.errors import InputError, UnrecognisedInputError, shorten
from ingest.files.prefetch import prefetch_one
from ingest.future import latest
from ingest.plausible import EARLIEST_S, LATEST_S, RUN_LOG
from ingest.runlog.columns import are_plain, blocks, lines_of
from ingest.runlog.lines import (
    CUT,
    STRICT,
    US,
    Ckpt,
    Line,
    RefusedLineError,
    Rejected,
    Run,
    Step,
    convert,
    event_row,
    is_of_run,
    microseconds,
    save_row,
    text_or_none,
)
from ingest.runlog.log_warnings import Implausible, warnings_of
from ingest.runlog.merge import merge_events, merge_sessions
from ingest.runlog.session import Session, moment, names_of, session_of, session_row
from ingest.runlog.steps import StepDays
from ingest.tables import RAW_LIMIT, REJECTS, RUN_EVENTS, RUN_SESSIONS, Parsed, conform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import date, datetime

    from ingest.load_warnings import LoadWarning
    from ingest.runlog.translation import Account

_IN_US: Final = RUN_EVENTS | {name: pl.Int64() for name in ("ts", "ended_at", "durable_at")}

BLOCK: Final = 1 << 23
"""Bytes that are read at a time."""

MAX_TAILS: Final = 20
"""Places in a damaged line at which a whole line is searched."""

_LINE_OF: Final = re.compile(r'"line":(\d+)')
"""Number of the line of another framework's log that a line of a run log was made of."""


@dataclass
class _Log:
    """What has been read so far. `steps` and `step_lines` are those of the block that is being read."""

    origin: str
    cluster: str | None
    cluster_of_jobs: str | None
    latest_us: float = math.inf
    sessions: list[Session] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    step_lines: list[int] = field(default_factory=list)
    days: StepDays = field(default_factory=StepDays)
    implausible: dict[str, Implausible] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    refused: list[tuple[int, str, str, str | None]] = field(default_factory=list)
    warnings: list[LoadWarning] = field(default_factory=list)
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
        for place in [*(place for place, kind in enumerate(map(type, parsed)) if kind is not Step), len(parsed)]:
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
        if isinstance(line, Rejected):
            self.refuse(number, line.reason, line.raw.encode())
            return
        if isinstance(line, Run):
            self.open, self.lost_at = False, number
            cluster = self.cluster if text_or_none(line.job_id) is None else self.cluster_of_jobs
            session = session_of(line, cluster, self.origin, len(self.steps), self.warnings)
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
        if isinstance(line, Step):
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

    def _is_past(self, *moments: int) -> None:
        if max(moments) > self.latest_us:
            raise RefusedLineError(_ahead(max(moments)))

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


def _ahead(us: float) -> str:
    return f"it lies in the future: {moment(int(us)):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True)
class RunLog:
    """A run log that was read; its steps are rows only when a day of them is asked for."""

    _log: _Log
    sessions: pl.DataFrame
    events: pl.DataFrame
    rejects: pl.DataFrame
    _account: Account | None = None

    def days(self) -> Iterator[tuple[str, date, pl.DataFrame]]:
        """Cluster, UTC day, and its rows of `steps`, one per execution of a step."""
        return self._log.days.merged([session.row for session in self._log.sessions])

    def parsed(self, n_steps: int, steps: pl.DataFrame | None = None) -> Parsed:
        """The account of the log.

        Args:
            n_steps: how many rows `days` has.
            steps: these rows, if the account is to hold them.
        """
        log = self._log
        frames = {"run_sessions": self.sessions, "run_events": self.events}
        whole = len(log.sessions) + log.days.height + len(log.events)
        loaded = sum(frame.height for frame in frames.values()) + n_steps
        account = self._account
        n_foreign = 0 if account is None else account.n_duplicates + len(account.refused)
        return Parsed(
            source="runlog",
            clusters=frozenset(session.row["cluster"] for session in log.sessions),
            frames=frames if steps is None else frames | {"steps": steps},
            rejects=self.rejects,
            rows_read=log.n_read + n_foreign,
            rows_loaded=loaded,
            rows_duplicate=whole - loaded + (0 if account is None else account.n_duplicates),
            rows_skipped=log.n_skipped,
            rows_rejected=self.rejects.height,
            columns=[],
            warnings=[
                *damaged(log.n_damaged),
                *([] if account is None else account.warnings),
                *log.warnings,
                *_warnings(log),
            ],
            covers_from=moment(min(session.began for session in log.sessions)),
            covers_until=moment(max(session.ended for session in log.sessions)),
        )


def read_runlog(
    chunks: Iterable[bytes | pl.DataFrame],
    *,
    origin: str = "input",
    cluster: str | None = None,
    cluster_of_jobs: str | None = None,
    now: datetime | None = None,
    block: int = BLOCK,
    account: Account | None = None,
) -> RunLog:
    """Read a run log, about `block` bytes at a time: of its steps only numbers are kept.

    Args:
        chunks: the bytes, unpacked, cut anywhere; steps may come as columns (`ingest.runlog.columns`).
        origin: where they came from, for messages and for `run_sessions.origin`.
        cluster: the cluster of sessions that name none.
        cluster_of_jobs: of those among them that have a job id; `cluster` if None, unknown if empty.
        now: the time: lines of later are refused, and so are those of a session that begins later.
        block: so many bytes are read at a time, and as many more as the line goes on.
        account: of the reader that made the run log of another framework's log.

    Raises:
        UnrecognisedInputError: it has no `run` line.
        InputError: a session names no cluster, and none is passed for it.
    """
    latest_us = math.inf if now is None else latest(now).timestamp() * US
    of_jobs = cluster if cluster_of_jobs is None else cluster_of_jobs or None
    log = _read(blocks(chunks, origin, block), _Log(origin, cluster, of_jobs, latest_us))
    if not log.sessions:
        raise UnrecognisedInputError(_no_session(log))
    if any(session.row["cluster"] is None for session in log.sessions):
        message = f"{origin}: a `run` line names no cluster, and no option does.\nName it: --cluster NAME"
        raise InputError(message)
    sessions = pl.DataFrame([session_row(session) for session in log.sessions], schema=RUN_SESSIONS)
    events = conform(pl.DataFrame(log.events, schema=_IN_US), RUN_EVENTS)
    return RunLog(log, merge_sessions(sessions), merge_events(events), _rejects(log, account), account)


def _read(blocks: Iterator[tuple[bytes | pl.DataFrame, int]], log: _Log) -> _Log:
    """Read all blocks of lines, and the steps that come as columns between them."""
    first = 1
    for block, n_damaged in prefetch_one(blocks):
        log.n_damaged += n_damaged
        if not isinstance(block, bytes):
            if log.open and are_plain(block):
                _keep_columns(log, block)
                continue
            block = lines_of(block)  # noqa: PLW2901 - each is looked at
        lines = block.removesuffix(b"\n").split(b"\n")
        log.first_line = log.first_line or _first_text(block)
        base = len(log.sessions) - 1
        log.take_block(first, lines)
        _keep_steps(log, max(base, 0), base + 1, first, lines)
        first += len(lines)
    return log


def _first_text(block: bytes) -> str:
    """The first line that is not blank."""
    return next((line for line in block.decode(errors="replace").split("\n") if line.strip()), "")


def _no_session(log: _Log) -> str:
    why = f"\nline {log.refused[0][0]}: {log.refused[0][1]}" if log.refused else ""
    return (
        f"{log.origin}: not a run log: there is no usable `run` line in it; it begins with\n"
        f"  {shorten(log.first_line)}{why}\n"
        "Run logs are JSON lines as the recorder writes them: trackside recorder --help"
    )


def _keep_steps(log: _Log, session: int, new: int, first: int, lines: list[bytes]) -> None:
    """Move the steps of a block to `days`.

    Args:
        log: the log, with the steps of the block.
        session: the number of the session that its first steps belong to.
        new: the number of the first session that began in it.
        first: the number of its first line.
        lines: its lines.
    """
    steps, log.steps = log.steps, []
    numbers, log.step_lines = log.step_lines, []
    if not steps:
        return
    starts = [0, *(each.first_step for each in log.sessions[new:]), len(steps)]
    owners = pl.concat(
        pl.repeat(number, after - before, dtype=pl.Int32, eager=True)
        for number, (before, after) in zip(
            [session, *range(new, len(log.sessions))], itertools.pairwise(starts), strict=True
        )
    )
    bad: dict[int, str] = {}
    table = pl.DataFrame(
        {
            "step": _values(steps, "step", pl.Int64),
            "t": _moments(steps, bad),
            "duration_s": _values(steps, "duration_s", pl.Float64),
            "tokens": _values(steps, "tokens", pl.Float64),
            "loss": _values(steps, "loss", pl.Float64),
            "session": owners,
        }
    )
    _keep(log, _placed(log, table, numbers, bad, lambda at: lines[numbers[at] - first]))


def _keep_columns(log: _Log, steps: pl.DataFrame) -> None:
    """Move steps that come as columns to `days`."""
    log.n_read += steps.height
    table = steps.with_columns(session=pl.lit(len(log.sessions) - 1, dtype=pl.Int32))
    numbers = steps["line"].to_list()
    _keep(log, _placed(log, table, numbers, {}, lambda at: lines_of(steps[at : at + 1]).strip()))


def _keep(log: _Log, table: pl.DataFrame) -> None:
    """Move the steps of rank 0 that have a time to `days`. Sessions record how far they reach."""
    whole = table.filter(pl.col("ts").is_not_null())
    for number, end in whole.group_by("session").agg(pl.col("end").max()).iter_rows():
        log.sessions[number].ended = max(log.sessions[number].ended, end)
    others = [number for number in whole["session"].unique() if log.sessions[number].rank]
    mine = whole.filter(~pl.col("session").is_in(others)) if others else whole
    log.n_skipped += whole.height - mine.height
    log.days.add(mine.select("session", "step", "ts", "duration_s", "tokens", "loss"))


def _placed(
    log: _Log, table: pl.DataFrame, numbers: list[int], bad: dict[int, str], raw: Callable[[int], bytes]
) -> pl.DataFrame:
    """The steps with `session`, `ts` and `end` in microseconds; those whose times cannot be are refused.

    Args:
        log: the log.
        table: the steps.
        numbers: of their lines.
        bad: those that are refused already, with the reason.
        raw: the line of a step.
    """
    moments, lengths, owners = table["t"], table["duration_s"], table["session"]
    end = pl.col("t") + pl.col("duration_s").fill_null(0)
    bound = RUN_LOG["duration_s"]
    too_long = table.select((pl.col("duration_s") > bound.most).arg_true()).to_series()
    bad |= {at: f"duration_s is {lengths[at]:g}, which cannot be: {bound.why}" for at in too_long}
    ahead = table.select((end * US > log.latest_us).fill_null(value=False).arg_true()).to_series()
    bad |= {at: _ahead(moments[at] * US + (lengths[at] or 0) * US) for at in ahead if at not in bad}
    table = table.with_columns(_if_plausible(table, name, log, numbers) for name in ("tokens", "loss"))
    for at, reason in bad.items():
        log.refuse(numbers[at], reason, raw(at), owners[at])
    fine = pl.lit(value=True) if not bad else ~pl.int_range(pl.len()).is_in(list(bad))
    return table.with_columns(
        ts=pl.when(fine).then((pl.col("t") * US).round().cast(pl.Int64, strict=False)),
        end=pl.when(fine).then((end * US).round().cast(pl.Int64, strict=False)),
    )


def _values(steps: list[Step], name: str, kind: type[pl.DataType]) -> pl.Series:
    return pl.Series(list(map(attrgetter(name), steps)), dtype=kind)


def _moments(steps: list[Step], bad: dict[int, str]) -> pl.Series:
    """The beginnings of the steps in seconds; NaN for those that are no time, whose reasons are added to `bad`."""
    times = list(map(attrgetter("t"), steps))
    try:
        plain = pl.Series(times, dtype=pl.Float64)
    except TypeError:  # some are text
        pass
    else:
        if plain.is_between(EARLIEST_S, LATEST_S).all():
            return plain
    moments = []
    for at, each in enumerate(times):
        try:
            moments.append(microseconds("t", each) / US if not _is_moment(each) else each)
        except RefusedLineError as error:
            bad[at] = str(error)
            moments.append(math.nan)
    return pl.Series(moments, dtype=pl.Float64)


def _is_moment(moment: float | str) -> bool:
    return type(moment) is float and EARLIEST_S <= moment <= LATEST_S


def _if_plausible(table: pl.DataFrame, name: str, log: _Log, numbers: list[int]) -> pl.Series:
    """A column of the steps without the values that cannot be, which are counted for a warning."""
    wrong = table.select((pl.col(name).abs() > RUN_LOG[name].most).fill_null(value=False)).to_series()
    if not wrong.any():
        return table[name]
    at = int(wrong.arg_true()[0])
    counted = log.implausible.setdefault(name, Implausible(0, numbers[at], table[name][at]))
    counted.count += int(wrong.sum())
    return table[name].set(wrong, None)


def _warnings(log: _Log) -> list[LoadWarning]:
    ranks = {session.rank for session in log.sessions}
    without_rank_0 = not log.days.height and log.n_skipped and 0 not in ranks
    return warnings_of(
        implausible=log.implausible,
        n_backwards=log.days.n_backwards,
        n_losses=log.n_losses,
        skipped_ranks=ranks if without_rank_0 else (),
    )


def _rejects(log: _Log, account: Account | None) -> pl.DataFrame:
    anyone = next(session.row["cluster"] for session in log.sessions)
    refused = log.refused
    if account is not None:
        own = [(_line_of(raw, number), reason, raw, cluster) for number, reason, raw, cluster in refused]
        refused = own + [(*one, None) for one in account.refused]
    rows = [
        {
            "cluster": cluster or anyone,
            "source": "runlog",
            "origin": log.origin,
            "line": number,
            "reason": reason,
            "raw": raw,
        }
        for number, reason, raw, cluster in sorted(refused, key=lambda each: each[0])
    ]
    return pl.DataFrame(rows, schema=REJECTS)


def _line_of(raw: str, number: int) -> int:
    """The number of the line that a line was made of, its own where it names none."""
    match = _LINE_OF.search(raw)
    return int(match[1]) if match else number
