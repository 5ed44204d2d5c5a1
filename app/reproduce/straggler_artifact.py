"""The artifact of "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025).

Traces of jobs at ByteDance, an operation a row, `trace-X.parquet`, with the results of the paper's own analysis beside
them: `ms-X.json` and `mw-X.json` have the times that M_S and M_W are made of.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.errors import UsageError
from app.formatting import measured
from app.reproduce.publication import Comparison, TracePublication
from metrics.stragglers.compute_sums import estimated_slowdown
from metrics.stragglers.operations import COMPUTE, KINDS, SENDS_AND_RECEIVES
from metrics.stragglers.verdict import verdict
from metrics.stragglers.what_if import what_if

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from metrics.stragglers.what_if import WhatIf

COLUMNS: Final = {
    "dp_rank": "dp_rank",
    "stage": "stage",
    "step": "step",
    "optype": "kind",
    "start_ts": "started_s",
    "duration": "duration_s",
    "seq_id": "number",
    "mc": "chunk",
    "gmc": "place",
}
"""The published columns, and ours."""

OPTIONAL: Final = ("seq_id", "mc", "gmc")
"""Without these, operations are numbered as they begin, and each stage has one model chunk."""

LONGEST_S: Final = 3600.0
"""A step that takes longer is rather one whose times are no seconds."""

MOST_WORKERS: Final = 10
"""Of the slowest 3 % of workers, those whose S_w is shown."""

UNREADABLE: Final = (OSError, ValueError, pl.exceptions.PolarsError)


def compare(path: Path) -> tuple[list[Comparison], list[str]]:
    """The published slowdowns and ours, of every trace below a path; and which traces were not read, and why.

    Raises:
        UsageError: there is no trace that can be read.
    """
    files = sorted(path.rglob("trace-*.parquet")) if path.is_dir() else [path]
    rows: list[Comparison] = []
    left_out: list[str] = []
    for file in files:
        try:
            rows += _of_trace(file)
        except UNREADABLE as error:
            left_out.append(f"{file}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
    if not rows:
        reasons = "".join(f"\n  {line}" for line in left_out)
        raise UsageError(f"{path}: no trace of the artifact: trace-*.parquet of operations{reasons}")
    return rows, left_out


def _of_trace(file: Path) -> list[Comparison]:
    every = read_operations(file)
    operations = every.filter(pl.col("kind").is_in(KINDS)).unique()
    result = what_if(operations)
    name = file.stem.removeprefix("trace-")
    return [
        Comparison(f"{name}: {row.quantity}", *row[1:])
        for row in _rows(result, operations, file, name, _notes(every, result))
    ]


def read_operations(file: Path) -> pl.DataFrame:
    """A trace as `frames.OPERATIONS`.

    Raises:
        ValueError: a column is missing.
        OSError, PolarsError: it cannot be read.
    """
    lazy = pl.scan_parquet(file)
    there = lazy.collect_schema().names()
    missing = [name for name in COLUMNS if name not in {*there, *OPTIONAL}]
    if missing:
        raise ValueError(f"its columns lack {', '.join(missing)}")
    absent = [pl.lit(None, dtype=pl.Int64).alias(name) for name in OPTIONAL if name not in there]
    renamed = lazy.with_columns(absent).select(*COLUMNS).rename(COLUMNS).with_columns(pl.col("kind").cast(pl.String))
    return renamed.with_columns(pl.col("started_s", "duration_s").cast(pl.Float64)).collect()


def _notes(every: pl.DataFrame, result: WhatIf) -> Iterator[str]:
    """What a reader of S has to know of the trace: what was left out of it, and what it lacks."""
    yield f"mean of {result.steps} steps, {result.measured_s:.3f} s as traced"
    if result.measured_s > LONGEST_S:
        yield "start_ts and duration do not seem to be in seconds"
    if result.incomplete_steps:
        yield f"{result.incomplete_steps} incomplete steps left out"
    if result.incomplete_ranks:
        ranks = ", ".join(map(str, result.incomplete_ranks))
        yield f"data-parallel ranks left out, since a stage of them is missing: {ranks}"
    unknown = every.filter(~pl.col("kind").is_in(KINDS))["kind"].unique().drop_nulls().sort()
    if len(unknown):
        yield f"operations of unknown kinds left out: {', '.join(unknown)}"
    if repeated := every.height - every.unique().height:
        yield f"{repeated:,} operations were in it more than once, and count once"
    if len(result.stages) > 1 and not result.kinds.keys() & set(SENDS_AND_RECEIVES):
        yield "no sends and receives, so stages count as if none waited for another"


def _rows(
    result: WhatIf, operations: pl.DataFrame, file: Path, name: str, notes: Iterable[str]
) -> Iterator[Comparison]:
    of_stage, of_workers = (_published(file.with_name(f"{kind}-{name}.json")) for kind in ("ms", "mw"))
    steps = "; ".join(notes)
    published = of_stage or of_workers
    slowdown = published["tori"] / published["tideal"] if published else None
    yield Comparison("slowdown S", "x", slowdown, result.slowdown, steps)
    yield Comparison("M_W", "ratio", of_workers.get("rem"), result.m_w, "slowest 3 % of workers put right")
    yield Comparison("M_S", "ratio", of_stage.get("rem"), result.m_s, "last stage put right")
    for kind, value in result.kinds.items():
        yield Comparison(f"S_t of {kind}", "x", None, value, "only this kind of operation as traced, over the ideal")
    for worker in sorted(result.slowest, key=result.worker, reverse=True)[:MOST_WORKERS]:
        named = f"S_w of data-parallel rank {worker.dp_rank}, stage {worker.stage}"
        yield Comparison(named, "x", None, result.worker(worker), "the smaller of its rank's and its stage's")
    sums = (
        operations.filter(pl.col("kind").is_in(COMPUTE))
        .group_by("step", "dp_rank", "stage")
        .agg(compute_s=pl.col("duration_s").sum())
    )
    for estimate in estimated_slowdown(sums)["slowdown"]:
        yield Comparison("slowdown from sums", "x", slowdown, estimate, "seconds of computation alone")
    for part, value in result.shares.items():
        yield Comparison(f"share of {part.replace('_', '-')}", "ratio", None, value, "of the time beyond the ideal")
    answer = verdict(result)
    explained = f"; {measured(answer.share, 'ratio')} of the time beyond the ideal" if answer.share is not None else ""
    yield Comparison("verdict", "", None, None, f"{answer.cause}: {answer.reason}{explained}. {answer.action}".strip())


def _published(file: Path) -> dict[str, float]:
    """Numbers of the artifact's own analysis; empty where the file is missing or no such file."""
    try:
        values: Any = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    numbers = (
        {key: value for key, value in values.items() if isinstance(value, float)} if isinstance(values, dict) else {}
    )
    complete = {"tori", "tideal", "rem"} <= set(numbers) and all(map(math.isfinite, numbers.values()))
    return numbers if complete and numbers["tideal"] > 0 else {}


PUBLICATION: Final = TracePublication(
    "straggler-artifact",
    "What-if analysis of stragglers (OSDI 2025): traces of slow jobs at ByteDance",
    "github.com/ByteDance-Seed/StragglerAnalysis (Apache-2.0): data/",
    compare,
)
