"""What accounting records of GPUs in the rows of `show utilisation` and `show waste`: beside telemetry, never in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.usage import recorded_use
from app.show.sentences import gpu_hours, percent
from ingest.counted import counted
from metrics import frames
from metrics.telemetry.utilisation import utilisation
from metrics.usage.activity import NOTHING, TELEMETRY, bounds, gpu_use, never_busy
from metrics.usage.recorded import JOBSTATS, SLURM, of_held
from metrics.waste.waste import WASTE

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader

_KEY: Final = list(frames.ATTEMPT_KEY)
_BOUNDS: Final = ("busy_most_s", "bounded_s", "busy_most")


def recorded_rows(
    source: Reader, window: Window, held: pl.DataFrame, observed: pl.DataFrame | None, key: list[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of utilisation by accounting, and what is left for telemetry.

    Args:
        source: the warehouse.
        window: of the question.
        held: `frames.ATTEMPT_KEY`, the columns of `key`, and `allocated_s`.
        observed: GPU-seconds by `frames.ATTEMPT_KEY` that telemetry observed; None without any.
        key: columns that name a subject.

    Returns:
        Rows as `metrics.telemetry.utilisation.utilisation` has them, one per subject and evidence, with `busy_most_s`
        of `bounded_s` and their share `busy_most`; and those of `held` that are in none of them.
    """
    unseen = held if observed is None else held.join(_with_telemetry(observed), on=_KEY, how="anti")
    use = gpu_use(recorded_use(source, window.cluster), unseen.select(*_KEY, "allocated_s"))
    mine = use.join(held.select(list(dict.fromkeys([*_KEY, *key]))), on=_KEY)
    allocated = held.join(use.select(*_KEY, "evidence"), on=_KEY)
    by = [*key, "evidence"]
    sums = mine.select(*by, *(name for name in use.columns if name.endswith(("_s", "_sum"))))
    rows = utilisation(sums.drop(_BOUNDS[:2]), allocated.select(*by, "allocated_s"), by)
    rows = rows.join(bounds(sums, by), on=by, how="left", nulls_equal=True, maintain_order="left")
    return rows, held.join(use, on=_KEY, how="anti")


def _with_telemetry(observed: pl.DataFrame) -> pl.DataFrame:
    """Attempts that telemetry has seen at all, whether or not it is known whose each second was."""
    return observed.filter(pl.sum_horizontal("observed_s", "unattributed_s") > 0).select(_KEY)


def together(telemetry: pl.DataFrame, recorded: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Both kinds of rows, each with its `evidence`, the most idle time first."""
    seen = float(telemetry["observed_s"].sum()) + float(telemetry["unattributed_s"].sum()) > 0
    telemetry = telemetry.with_columns(evidence=pl.lit(TELEMETRY if seen else NOTHING))
    if recorded.is_empty():
        return telemetry.with_columns(pl.lit(None, frames.NUMBER).alias(name) for name in _BOUNDS)
    rows = pl.concat([telemetry, recorded], how="diagonal_relaxed")
    order = [pl.col("idle_s").fill_null(-1.0), pl.col("allocated_s"), *map(pl.col, key), pl.col("evidence")]
    return rows.sort(order, descending=[True, True, *(False for _ in [*key, "evidence"])], nulls_last=True)


def by_accounting(rows: pl.DataFrame) -> pl.DataFrame:
    """Those rows that rest on accounting."""
    return rows.filter(pl.col("evidence").is_in([JOBSTATS, SLURM]))


def sentence(rows: pl.DataFrame) -> str:
    """What accounting adds to the headline; empty where it records nothing."""
    parts = []
    jobstats, slurm = (rows.filter(pl.col("evidence") == name) for name in (JOBSTATS, SLURM))
    if float(jobstats["gpu_util_s"].sum()) > 0:
        mean = float(jobstats["gpu_util_sum"].sum()) / float(jobstats["gpu_util_s"].sum())
        held = float(jobstats["allocated_s"].sum())
        parts.append(f"jobstats has a mean GPU utilisation of {percent(mean)} over {gpu_hours(held)}")
    if float(slurm["bounded_s"].sum()) > 0:
        most = float(slurm["busy_most_s"].sum()) / float(slurm["bounded_s"].sum())
        parts.append(
            f"Slurm's samples show at most {percent(most)} busy over {gpu_hours(float(slurm['bounded_s'].sum()))}"
        )
    return f"Without telemetry, by accounting: {'; '.join(parts)}." if parts else ""


NOTES: Final = {
    JOBSTATS: (
        "evidence jobstats: the summary in AdminComment, means over whole jobs; idle: GPUs that were never busy, so at "
        "least."
    ),
    SLURM: (
        "evidence slurm: the highest sample of a task (gres/gpuutil of TRESUsageInMax); it has no mean, only how much "
        "can have been busy at most. A 0 may also mean that Slurm cannot measure these GPUs."
    ),
    NOTHING: "evidence none: neither telemetry nor accounting records what these GPUs did.",
}


def notes(rows: pl.DataFrame) -> list[str]:
    """What each kind of evidence among the rows is."""
    if by_accounting(rows).is_empty():
        return []
    return [NOTES[name] for name in NOTES if name in set(rows["evidence"])]


# --- waste -----------------------------------------------------------------------------------------------------------

UNUSED: Final = "unused_by_jobstats"
"""Kind of `show waste`: GPUs that a summary of jobstats shows as never busy, of attempts that nothing else observed."""


def unused_rows(source: Reader, window: Window, flags: pl.DataFrame) -> pl.DataFrame:
    """The row of `UNUSED`, as `metrics.waste.waste.waste` has rows; none where no summary covers such an attempt.

    At least are the GPUs that were never busy; at most all time in which, by the means, no kernel ran.

    Args:
        source: the warehouse.
        window: of the question.
        flags: as `metrics.waste.waste.flagged` returns it.
    """
    blind = flags.filter((pl.col("telemetry_s") <= 0) & (pl.col("log_s") <= 0))
    use = gpu_use(recorded_use(source, window.cluster), blind.select(*_KEY, "allocated_s"))
    table = never_busy(use, blind.select(*_KEY, "allocated_s"))
    labels = {"cluster": window.cluster, "subject": window.cluster, "kind": UNUSED}
    return frames.conform(table.with_columns(pl.lit(text).alias(name) for name, text in labels.items()), WASTE)


def use_note(source: Reader, window: Window, flags: pl.DataFrame) -> str:
    """How much of the CPUs and memory that attempts held they used; empty where accounting records none of it."""
    recorded = recorded_use(source, window.cluster).join(flags.select(_KEY), on=_KEY, how="semi")
    row = of_held(recorded).row(0, named=True)
    if row["cpu_share"] is None:
        return ""
    memory = "" if row["memory_share"] is None else f"; of memory {percent(row['memory_share'])} at the peak (median)"
    return (
        f"CPUs and memory, by accounting of {row['n_attempts']:,} of {counted(flags.height, 'attempt')}: "
        f"{percent(row['cpu_share'])} of the CPU time held was used{memory} (trackside run ID)."
    )
