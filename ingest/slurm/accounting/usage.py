"""Recorded use of CPUs, memory, GPUs and energy: rows of sacct, steps and jobs, to `step_usage`.

Unmeasured values are null, never 0. sacct prints 0 for them in many places:

- the TotalCPU of a job without its steps (`sacct -X`), of a step that runs, and of one whose record was lost;
- the MaxRSS of a step that ended before its first sample, and the energy of a cluster that does not measure it.

A TotalCPU of 0 counts only beside a sample of memory, as evidence that the step was measured; memory and energy of 0
never do. A 0 of `gres/gpuutil` is kept, although the record does not show whether the GPU was measured.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from ingest import future
from ingest.load_warnings import LoadWarning
from ingest.slurm.accounting.columns import DumpColumns
from ingest.slurm.formats import values
from ingest.slurm.formats.timestamps import consistent_times
from ingest.tables import STEP_USAGE, Schema, conform, empty

if TYPE_CHECKING:
    from datetime import datetime

KEY: Final = ("cluster", "scheduler", "job_id", "step", "started_at")
"""Key of a step of an attempt: the attempts of a requeued job have different starts."""

MEASURES: Final = (
    *("totalcpu", "maxrss", "consumedenergyraw", "consumedenergy"),
    *("tresusageinmax", "tresusageintot", "tresusageinave"),
)
"""The columns of sacct that record use. A dump without any of them has no rows here."""

_RSS: Final = ("max_rss_bytes", "max_rss_node", "max_rss_task")
_NUMBERS: Final = (
    *("db_index", "ended_at", "elapsed_s", "n_nodes", "n_tasks", "cpu_s", "tasks_rss_bytes"),
    *("gpu_util_max", "gpu_util_total", "gpu_mem_max_bytes", "gpu_mem_total_bytes", "energy_j"),
)


_OF_JOBS: Final = frozenset(("start", "end", "elapsedraw", "elapsed", "suspended", "dbindex", "nnodes", "allocnodes"))
"""Columns that `attempts.read_facts` reads in the rows of jobs: there it counts what cannot be read."""


class StepUsage(NamedTuple):
    """`STEP_USAGE` of a dump, and a warning for each column with values that could not be read."""

    rows: pl.DataFrame
    warnings: list[LoadWarning]


def step_usage(
    frame: pl.DataFrame, *, cluster: str | None, timezone: str | None, origin: str, now: datetime | None = None
) -> StepUsage:
    """Rows of sacct, jobs and steps, as `STEP_USAGE`: one row for each that started; jobs only where they record use.

    What cannot be read is null and counted in a warning; marks for "not set" are null without one.

    Args:
        frame: all columns text.
        cluster: of rows that do not name one.
        timezone: of times without an offset.
        origin: file name or command, for messages.
        now: the current time, if known: later rows are left out, as their jobs are refused.
    """
    if not any(name in frame.columns for name in MEASURES):
        return StepUsage(empty(STEP_USAGE), [])
    ids = next(name for name in ("jobidraw", "jobid") if name in frame.columns)
    rows = frame.filter(pl.col(ids).str.contains("^[^.]*" + values.STEP) | _used(frame))
    if rows.is_empty():
        return StepUsage(empty(STEP_USAGE), [])
    columns = DumpColumns(rows, timezone=timezone, origin=origin)
    table = _table(columns, cluster)
    started = pl.all_horizontal(pl.col(name).is_not_null() for name in KEY)
    used = merge_usage(conform(table.filter(started & ~_ahead(now)), STEP_USAGE))
    return StepUsage(used, _unread(columns, of_steps=table["step"] != ""))


def _unread(columns: DumpColumns, *, of_steps: pl.Series) -> list[LoadWarning]:
    """A warning for each column with values that could not be read, but for those that the rows of jobs count."""
    lost = {name: each & of_steps if name in _OF_JOBS else each for name, each in sorted(columns.lost.items())}
    return [LoadWarning("values_unread", int(each.sum()), name) for name, each in lost.items() if each.any()]


def _ahead(now: datetime | None) -> pl.Expr:
    """Rows with times later than now."""
    if now is None:
        return pl.lit(value=False)
    return (pl.max_horizontal("started_at", "ended_at") > future.latest(now)).fill_null(value=False)


def _used(frame: pl.DataFrame) -> pl.Expr:
    """Rows that hold a value other than 0."""
    blank = r"^[0:.\s]*$"
    return pl.any_horizontal(
        ~pl.col(name).str.contains(blank).fill_null(value=True) for name in MEASURES if name in frame.columns
    )


def _table(columns: DumpColumns, cluster: str | None) -> pl.DataFrame:
    ids = values.job_ids(columns.word("jobidraw", "jobid"))
    start, end = columns.time("start"), columns.time("end")
    for name, instants in (("start", start), ("end", end)):
        columns.note(name, instants.error.is_not_null())
    elapsed = columns.duration("elapsedraw", "elapsed")
    times = consistent_times(
        submit=start,
        eligible=start,
        start=start,
        end=end,
        elapsed_s=elapsed,
        suspended_s=columns.duration("suspended"),
    )
    most, all_tasks, mean = (_tres_used_in(columns, f"tresusagein{name}") for name in ("max", "tot", "ave"))
    n_tasks, peak = columns.whole("ntasks"), _sizes(columns, "maxrss")
    total = {
        name: all_tasks[name].fill_null((mean[name] * n_tasks).cast(_TRES[name]))
        for name in ("mem", "gpu_util", "gpu_mem")
    }
    table = pl.DataFrame(
        {
            "cluster": columns.word("cluster").fill_null(pl.lit(cluster, pl.String)),
            "scheduler": pl.repeat("slurm", len(elapsed), eager=True),
            "job_id": columns.word("jobidraw", "jobid").str.replace(values.STEP, ""),
            "step": ids["step"].fill_null(""),
            "started_at": times["start"],
            "db_index": columns.whole("dbindex"),
            "ended_at": times["end"],
            "elapsed_s": elapsed,
            "n_nodes": columns.whole("nnodes", "allocnodes"),
            "n_tasks": n_tasks,
            "cpu_s": columns.duration("totalcpu"),
            "max_rss_bytes": _measured(peak.fill_null(most["mem"])),
            "max_rss_node": columns.word("maxrssnode"),
            "max_rss_task": columns.whole("maxrsstask"),
            "tasks_rss_bytes": _measured(total["mem"]),
            "gpu_util_max": most["gpu_util_most"],
            "gpu_util_total": total["gpu_util"],
            "gpu_mem_max_bytes": most["gpu_mem_most"],
            "gpu_mem_total_bytes": total["gpu_mem"],
            "energy_j": _energy(columns),
        }
    )
    sampled = pl.col("max_rss_bytes").is_not_null() | pl.col("tasks_rss_bytes").is_not_null()
    return table.with_columns(
        pl.when((pl.col("cpu_s") > 0) | (sampled & (pl.col("step") != ""))).then("cpu_s"),
        *(pl.when(pl.col("max_rss_bytes").is_not_null()).then(name).alias(name) for name in _RSS[1:]),
    )


def _measured(numbers: pl.Series) -> pl.Series:
    """Numbers without 0, which means that nothing was measured."""
    return numbers.set(numbers <= 0, None)


def _energy(columns: DumpColumns) -> pl.Series:
    """Joules. ConsumedEnergy has suffixes of thousands; without them it is the same number."""
    raw, shown = _sizes(columns, "consumedenergyraw", 1000), _sizes(columns, "consumedenergy", 1000)
    return _measured(raw.fill_null(shown).cast(pl.Float64))


def _sizes(columns: DumpColumns, name: str, base: int = 1024) -> pl.Series:
    text = columns.word(name)
    read = sizes(text, base)
    columns.note(name, text.is_not_null() & read.is_null() & ~text.str.contains(_UNSET_SIZE))
    return read


_SIZE: Final = re.compile(r"(\d{1,19}(?:\.\d{1,9})?)([KMGTPE]?)B?", re.ASCII | re.IGNORECASE)
_UNSET_SIZE: Final = r"(?i)^\d{20,}[KMGTPE]?B?$|^\d{1,3}(?:\.\d+)?E$|\?$"
"""What sacct prints for "not set": 2^64 - 2 (also as `16E`), or as much with a suffix that it lacks (`16?`)."""
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def sizes(text: pl.Series, base: int = 1024) -> pl.Series:
    """Numbers with sacct's suffixes; without one (`--noconvert`) they are bytes, or joules.

    >>> sizes(pl.Series(["5054464", "4936K", "1.50G", "16?", None])).to_list()
    [5054464, 5054464, 1610612736, None, None]
    """
    return values.by_distinct(text, lambda each: (_size(each, base),), {"size": pl.Int64()})["size"]


def _size(text: str, base: int) -> int | None:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    size = float(match[1]) * base ** _POWERS[match[2].upper()]
    return int(size) if size < 2**63 else None


_TRES: Final[Schema] = {
    "mem": pl.Int64(),
    "gpu_util": pl.Float64(),
    "gpu_util_most": pl.Float64(),
    "gpu_mem": pl.Int64(),
    "gpu_mem_most": pl.Int64(),
    "lost": pl.Boolean(),
}


def _tres_used_in(columns: DumpColumns, name: str) -> pl.DataFrame:
    used = tres_used(columns.word(name))
    columns.note(name, used["lost"])
    return used


def tres_used(text: pl.Series) -> pl.DataFrame:
    """Memory and GPUs of a column TRESUsageIn...: `mem`, of GPUs the sum and the most over their types, and `lost`.

    `gres/gpuutil` counts all types; where a site lists types only (`gres/gpuutil:a100`), those are taken together.
    `lost`: a value of memory or GPUs cannot be read, or there are no values.

    >>> tres_used(pl.Series(["cpu=00:00:01,gres/gpumem=21794M,gres/gpuutil=97,mem=5054464"])).rows()
    [(5054464, 97.0, 97.0, 22852665344, 22852665344, False)]
    >>> tres_used(pl.Series(["gres/gpuutil:a100=50,gres/gpuutil:h100=97"])).rows()
    [(None, 147.0, 97.0, None, None, False)]
    """
    return values.by_distinct(text, _tres_used, _TRES)


def _tres_used(text: str) -> tuple[object, ...]:
    items = dict(item.strip().partition("=")[::2] for item in text.split(","))
    util, memory = _of_gpus(items, "gres/gpuutil"), _of_gpus(items, "gres/gpumem")
    used = [value for name, value in items.items() if name == "mem" or name.startswith(("gres/gpuutil", "gres/gpumem"))]
    return (
        _size(items.get("mem", ""), 1024),
        float(sum(util)) if util else None,
        float(max(util)) if util else None,
        sum(memory) if memory else None,
        max(memory) if memory else None,
        "=" not in text or any(_size(each, 1024) is None and not re.search(_UNSET_SIZE, each) for each in used),
    )


def _of_gpus(items: dict[str, str], name: str) -> list[int]:
    """The values of a GPU resource: that of all types if it is there, else those of each type."""
    whole = _size(items.get(name, ""), 1024)
    if whole is not None:
        return [whole]
    typed = (_size(value, 1024) for key, value in items.items() if key.startswith(f"{name}:"))
    return [value for value in typed if value is not None]


# --- the same step seen more than once -------------------------------------------------------------------------------


def merge_usage(*frames: pl.DataFrame) -> pl.DataFrame:
    """One row per `KEY` of any number of loads, whatever their order.

    A later record replaces an earlier one: the end of a step replaces its running, and a longer time a shorter one.
    Records of the same end hold only the exported columns, and fill each other's gaps.
    """
    rows = pl.concat([conform(frame, STEP_USAGE) for frame in frames]) if frames else empty(STEP_USAGE)
    if not rows.select(KEY).is_duplicated().any():
        return rows
    latest = pl.struct(pl.col("ended_at").is_not_null(), pl.col("elapsed_s").fill_null(-1.0)).rank("dense")
    rows = rows.with_columns(latest.over(KEY).alias("#latest"))
    rows = rows.filter(pl.col("#latest") == pl.col("#latest").max().over(KEY))
    greatest = [pl.col(name).sort_by(*_RSS, nulls_last=False).last() for name in _RSS]
    return conform(rows.group_by(KEY).agg(*greatest, *(pl.col(name).max() for name in _NUMBERS)), STEP_USAGE)
