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

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.delimited.reader import damaged
from ingest.errors import InputError, UnrecognisedInputError, shorten
from ingest.files.prefetch import prefetch_one
from ingest.future import latest
from ingest.runlog.columns import are_plain, blocks, lines_of
from ingest.runlog.lines import (
    US,
)
from ingest.runlog.log import ParsedLog
from ingest.runlog.log_warnings import warnings_of
from ingest.runlog.merge import merge_events, merge_sessions
from ingest.runlog.session import moment, session_row
from ingest.runlog.step_table import keep_columns, keep_steps
from ingest.tables import REJECTS, RUN_EVENTS, RUN_SESSIONS, Parsed, conform

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date, datetime

    from ingest.load_warnings import LoadWarning
    from ingest.runlog.translation import Findings

_IN_US: Final = RUN_EVENTS | {name: pl.Int64() for name in ("ts", "ended_at", "durable_at")}

BLOCK: Final = 1 << 23
"""Bytes that are read at a time."""
_LINE_OF: Final = re.compile(r'"line":(\d+)')
"""Number of the line of another framework's log that a line of a run log was made of."""


@dataclass(frozen=True)
class RunLog:
    """A run log that was read; its steps become rows only when a day of them is requested."""

    _log: ParsedLog
    sessions: pl.DataFrame
    events: pl.DataFrame
    rejects: pl.DataFrame
    _findings: Findings | None = None

    @property
    def height(self) -> int:
        """How many rows it has."""
        return self._log.days.height + self.events.height + self.sessions.height + self.rejects.height

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
        findings = self._findings
        n_foreign = 0 if findings is None else findings.n_duplicates + len(findings.refused)
        return Parsed(
            source="runlog",
            clusters=frozenset(session.row["cluster"] for session in log.sessions),
            frames=frames if steps is None else frames | {"steps": steps},
            rejects=self.rejects,
            rows_read=log.n_read + n_foreign,
            rows_loaded=loaded,
            rows_duplicate=whole - loaded + (0 if findings is None else findings.n_duplicates),
            rows_skipped=log.n_skipped,
            rows_rejected=self.rejects.height,
            columns=[],
            warnings=[
                *damaged(log.n_damaged),
                *([] if findings is None else findings.warnings),
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
    findings: Findings | None = None,
    ahead: bool = True,
) -> RunLog:
    """Read a run log, about `block` bytes at a time: of its steps only numbers are kept.

    Args:
        chunks: the bytes, unpacked, cut anywhere; steps may come as columns (`ingest.runlog.columns`).
        origin: where they came from, for messages and for `run_sessions.origin`.
        cluster: the cluster of sessions that name none.
        cluster_of_jobs: of those among them that have a job id; `cluster` if None, unknown if empty.
        now: the time: lines of later are refused, and so are those of a session that begins later.
        block: so many bytes are read at a time, and as many more as the line goes on.
        findings: of the reader that made the run log of another framework's log.
        ahead: make blocks ahead, in a thread of their own: a small file is read in the time that this takes.

    Raises:
        UnrecognisedInputError: it has no `run` line.
        InputError: a session names no cluster, and none is passed for it.
    """
    latest_us = math.inf if now is None else latest(now).timestamp() * US
    of_jobs = cluster if cluster_of_jobs is None else cluster_of_jobs or None
    lines = blocks(chunks, origin, block)
    log = _read(prefetch_one(lines) if ahead else lines, ParsedLog(origin, cluster, of_jobs, latest_us), findings)
    if not log.sessions:
        raise UnrecognisedInputError(_no_session(log))
    if any(session.row["cluster"] is None for session in log.sessions):
        message = f'{origin}: a line of type "run" names no cluster, and no option does.\nName it: --cluster NAME'
        raise InputError(message)
    sessions = pl.DataFrame([session_row(session) for session in log.sessions], schema=RUN_SESSIONS)
    events = conform(pl.DataFrame(log.events, schema=_IN_US), RUN_EVENTS)
    return RunLog(log, merge_sessions(sessions), merge_events(events), _rejects(log, findings), findings)


def _read(blocks: Iterator[tuple[bytes | pl.DataFrame, int]], log: ParsedLog, findings: Findings | None) -> ParsedLog:
    """Read all blocks of lines, and the steps that come as columns between them."""
    first = 1
    for block, n_damaged in blocks:
        log.n_damaged += n_damaged
        if not isinstance(block, bytes):
            if log.open and are_plain(block):
                keep_columns(log, block)
                continue
            block = lines_of(block)  # noqa: PLW2901 - each is examined
        log.stated = {} if findings is None else findings.stated  # known once the beginning is read
        lines = block.removesuffix(b"\n").split(b"\n")
        log.first_line = log.first_line or _first_text(block)
        base = len(log.sessions) - 1
        log.take_block(first, lines)
        keep_steps(log, max(base, 0), base + 1, first, lines)
        first += len(lines)
    return log


def _first_text(block: bytes) -> str:
    """The first line that is not blank."""
    return next((line for line in block.decode(errors="replace").split("\n") if line.strip()), "")


def _no_session(log: ParsedLog) -> str:
    why = f"\nline {log.refused[0][0]}: {log.refused[0][1]}" if log.refused else ""
    return (
        f'{log.origin}: not a run log: it has no usable line of type "run"; it begins with\n'
        f"  {shorten(log.first_line)}{why}\n"
        "Run logs are JSON lines as the recorder writes them: trackside recorder --help"
    )


def _warnings(log: ParsedLog) -> list[LoadWarning]:
    ranks = {session.rank for session in log.sessions}
    without_rank_0 = not log.days.height and log.n_skipped and 0 not in ranks
    return warnings_of(
        implausible=log.implausible,
        n_backwards=log.days.n_backwards,
        n_losses=log.n_losses,
        skipped_ranks=ranks if without_rank_0 else (),
        not_taken=log.not_taken,
    )


def _rejects(log: ParsedLog, findings: Findings | None) -> pl.DataFrame:
    anyone = next(session.row["cluster"] for session in log.sessions)
    refused = log.refused
    if findings is not None:
        own = [(_line_of(raw, number), reason, raw, cluster) for number, reason, raw, cluster in refused]
        refused = own + [(*one, None) for one in findings.refused]
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
