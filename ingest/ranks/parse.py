r"""Rank times: computation and waiting of each rank. The format, version 1, is a public contract, described here.

A file of JSON objects, one a line, in UTF-8, appended to as training goes on; gzip is accepted. Each stands by itself:

    {"type":"rank_steps","v":1,"t":1790812800.5,"end":1790812893.25,"run_id":"llama-8b","cluster":"alpha",
     "scheduler":"slurm","job_id":"29","restart_count":0,"node":"n1","rank":8,"local_rank":0,"stage":null,
     "step":100,"steps":50,"compute_s":81.7,"wait_s":10.9}

`t`, `end`, `run_id`, `node`, `rank`, `step` (the first), `steps` (how many) and `compute_s` must be there. `compute_s`
are seconds of computation, all steps together, without waiting for other ranks; `wait_s` those of waiting. `stage` is
the pipeline stage, left out in a job without. Times are seconds since 1970. Lines of other types are skipped, so a run
log may hold these lines, too.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import polars as pl

from ingest.cluster_names import TOO_LONG, fits_a_folder
from ingest.delimited.reader import BLOCK, clean_blocks, damaged
from ingest.errors import shorten
from ingest.plausible import EARLIEST_S, LATEST_S, LONGEST_NAME, RUN_LOG
from ingest.tables import RAW_LIMIT, REJECTS, Parsed, columns_of, conform, earliest_time, latest_time

if TYPE_CHECKING:
    from collections.abc import Iterable

TYPE: Final = "rank_steps"
KEY: Final = ("cluster", "run_id", "session", "rank", "started_at")
ROWS: Final = columns_of("rank_steps")

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Step = Annotated[int, msgspec.Meta(ge=0, le=int(RUN_LOG["step"].most))]
_Seconds = Annotated[float, msgspec.Meta(ge=0)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]


class _RankLine(msgspec.Struct, gc=False):
    """A line. Times are seconds since 1970."""

    t: float
    end: float
    run_id: _Name
    node: _Name
    rank: _Count
    step: _Step
    steps: Annotated[int, msgspec.Meta(ge=1, le=int(RUN_LOG["step"].most))]
    compute_s: _Seconds
    wait_s: _Seconds | None = None
    local_rank: _Count | None = None
    stage: _Count | None = None
    cluster: _Name | None = None
    scheduler: _Name | None = None
    job_id: _Name | None = None
    restart_count: _Count | None = None


class _UnusableLineError(Exception):
    """A line cannot be used; the text is the reason."""


def parse_rank_times(chunks: Iterable[bytes], *, origin: str, cluster: str, cluster_of_jobs: str) -> Parsed:
    """Read one file, a block at a time.

    Args:
        chunks: its bytes.
        origin: its name.
        cluster: of lines that name none and have no job id.
        cluster_of_jobs: of lines that name none and have one; empty: unknown, they are refused.

    Raises:
        UnrecognisedInputError: it is empty.
    """
    rows: list[pl.DataFrame] = []
    rejects: list[dict[str, str]] = []
    n_lines = n_skipped = n_damaged = 0
    for block, replaced in clean_blocks(chunks, origin, BLOCK):
        n_damaged += replaced
        of_block: list[dict[str, Any]] = []
        for line in block.splitlines():
            if not line.strip():
                continue
            n_lines += 1
            try:
                row = _row(line, cluster, cluster_of_jobs)
            except _UnusableLineError as error:
                rejects.append(_reject(line, str(error), origin, n_lines, cluster))
                continue
            n_skipped += row is None
            of_block += [row] if row is not None else []
        rows.append(pl.DataFrame(of_block, schema=ROWS))
    loaded = pl.concat(rows)
    kept = loaded.unique(KEY, keep="last", maintain_order=True)
    return Parsed(
        "ranks.steps",
        frozenset(kept["cluster"]),
        {"rank_steps": kept},
        conform(pl.DataFrame(rejects, schema=dict.fromkeys(REJECTS, pl.String())), REJECTS),
        rows_read=n_lines,
        rows_loaded=kept.height,
        rows_duplicate=loaded.height - kept.height,
        rows_skipped=n_skipped,
        rows_rejected=len(rejects),
        covers_from=earliest_time(kept["started_at"]),
        covers_until=latest_time(kept["ended_at"]),
        warnings=damaged(n_damaged),
    )


def _row(line: bytes, cluster: str, cluster_of_jobs: str) -> dict[str, Any] | None:
    """A row; None for a line of another type.

    Raises:
        _RefusedError: it cannot be used.
    """
    try:
        fields = json.loads(line)
    except ValueError:
        raise _UnusableLineError("not a whole JSON object: was the process killed while it wrote this?") from None
    if not isinstance(fields, dict):
        raise _UnusableLineError("not a JSON object")
    if fields.get("type") != TYPE:
        return None
    try:
        read = msgspec.convert(fields, _RankLine)
    except msgspec.ValidationError as error:
        raise _UnusableLineError(shorten(str(error))) from None
    _check(read)
    place = read.cluster or (cluster if read.job_id is None else cluster_of_jobs)
    if not place:
        raise _UnusableLineError("names no cluster, and several have accounting: --cluster NAME")
    if not fits_a_folder(place):
        raise _UnusableLineError(TOO_LONG)
    return {
        **{name: getattr(read, name) for name in ("run_id", "rank", "job_id", "node", "local_rank", "stage", "steps")},
        "cluster": place,
        "session": "" if read.job_id is None else f"{read.job_id}.{read.restart_count or 0}",
        "started_at": datetime.fromtimestamp(read.t, UTC),
        "ended_at": datetime.fromtimestamp(read.end, UTC),
        "scheduler": read.scheduler or ("none" if read.job_id is None else "slurm"),
        "first_step": read.step,
        "compute_s": read.compute_s,
        "wait_s": read.wait_s,
    }


def _check(line: _RankLine) -> None:
    """Raises _RefusedError: a time or a number of seconds cannot be."""
    for name in ("t", "end", "compute_s", "wait_s"):
        value = getattr(line, name)
        if value is not None and not math.isfinite(value):
            raise _UnusableLineError(f"{name} is {value}, which is no number")
    if not EARLIEST_S <= line.t <= LATEST_S or not line.t <= line.end <= LATEST_S:
        raise _UnusableLineError(f"t and end are no times of a training run: {line.t}, {line.end}")
    longest = RUN_LOG["duration_s"].most
    if max(line.end - line.t, line.compute_s, line.wait_s or 0.0) > longest * line.steps:
        raise _UnusableLineError(f"more than {longest:,.0f} s a step: {RUN_LOG['duration_s'].why}")


def _reject(line: bytes, reason: str, origin: str, number: int, cluster: str) -> dict[str, str]:
    return {
        "cluster": cluster,
        "source": "ranks.steps",
        "origin": origin,
        "reason": reason,
        "raw": f"{number}: {line.decode(errors='replace')}"[:RAW_LIMIT],
    }
