"""Model FLOP utilisation of steps, runs and all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.results.constants import computed_constants
from app.results.registry import result
from app.results.runs.run_logs import computed_logs
from app.results.windows import as_results, ledger_sums, named, seed
from ingest.counted import counted
from metrics import frames
from metrics.empty_inputs import cached_if_empty
from metrics.exact import FLOP, exact_sum
from metrics.mfu.flops import CONVENTIONS, MEASURES
from metrics.mfu.mfu import FACTS, fleet, mixes, step_mfu, summary
from metrics.mfu.wall import allocated, run_mfu

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.results.runs.run_logs import Logs
    from app.window import RowSource, Window
    from metrics.mfu.flops import Convention, Measure

INTERVAL: Final = "BCa bootstrap over blocks of steps, 95 %"
"""How the interval of all runs together is made."""


def step_mfu_rows(
    source: RowSource,
    window: Window,
    convention: Convention | None = None,
    dtype: str | None = None,
) -> pl.DataFrame:
    """MFU of every kept step that began in the window, under a convention (by default the configured one).

    It is over the peak of a data type: of `dtype`, by default of the fastest one that the log names.

    Returns:
        As `metrics.mfu.mfu.step_mfu`, with `run_id` as the runs are joined; a step's time is `wall_s` of the step log:
        data loading is in it, checkpoints, evaluation and hangs are not. `n_gpus` are the GPUs allocated to it.
    """
    used = convention or flop_convention(source, window.cluster)
    return step_mfu(kept_steps(source, window), convention=used, peak_dtype=dtype)


def kept_steps(source: RowSource, window: Window, facts: Sequence[str] = FACTS) -> pl.DataFrame:
    """Kept steps that began in the window, with the facts of their sessions."""
    return with_facts(computed_logs(source, window.cluster), window, facts).filter("kept")


def with_facts(known: tuple[Logs, pl.DataFrame], window: Window, facts: Sequence[str] = FACTS) -> pl.DataFrame:
    """Executions of steps that began in the window, with the facts of their sessions and the GPUs they were allocated.

    Where several programs log in one attempt, only their logs record which of its GPUs each one has.

    Args:
        known: as `app.results.runs.run_logs.computed_logs` returns them.
        window: where the steps begin.
        facts: columns of the sessions.
    """
    logs, executed = known
    low, high = frames.instant(window.since), frames.instant(window.until)
    inside = executed if executed.is_empty() else executed.filter((pl.col("ts") >= low) & (pl.col("ts") < high))
    return _with_facts(inside, logs.sessions, tuple(facts))


@cached_if_empty("executed")
def _with_facts(executed: pl.DataFrame, sessions: pl.DataFrame, facts: tuple[str, ...]) -> pl.DataFrame:
    known = sessions.with_columns(sized_gpus()).select("session", *facts, "logged_gpus")
    return executed.join(known, on="session").with_columns(run_id="run")


def sized_gpus() -> tuple[pl.Expr, pl.Expr]:
    """GPUs of a session (`n_gpus`): those of its attempt where it logs alone there; and those that it logs itself."""
    alone = pl.col("stream").n_unique().over(list(frames.ATTEMPT_KEY)) == 1
    whole = pl.when(alone & (pl.col("milli_gpus") > 0)).then(pl.col("milli_gpus") / 1000)
    return pl.coalesce(whole, pl.col("n_gpus").cast(pl.Float64)).alias("n_gpus"), pl.col("n_gpus").alias("logged_gpus")


def flop_convention(source: RowSource, cluster: str) -> Convention:
    """The convention that the headline MFU of a cluster was computed with."""
    convention: Convention = computed_constants(source, cluster)["flop_convention"]
    return convention


@result("mfu", in_standard_windows=True)
def mfu_rows(
    source: RowSource, window: Window, convention: Convention | None = None, dtype: str | None = None
) -> pl.DataFrame:
    """MFU of the cluster over kept steps, as one result row; none if nothing was logged in the window.

    `value` is the model FLOP of all steps over the peak FLOP of their GPUs in that time; the interval is a bootstrap
    of blocks of consecutive steps.
    """
    used = convention or flop_convention(source, window.cluster)
    steps = step_mfu_rows(source, window, used, dtype=dtype)
    if steps.is_empty():
        return frames.empty(frames.RESULT)
    return fleet_row(steps, window, used, "hfu" if used == "executed" else "mfu")


def fleet_row(steps: pl.DataFrame, window: Window, convention: Convention, measure: Measure) -> pl.DataFrame:
    """MFU (or HFU) of steps together as one result row."""
    pooled = fleet(steps, seed=seed("mfu", convention, *named(window)))
    gpu_s = exact_sum(pl.col("n_gpus") * pl.col("wall_s"))
    hours = steps.filter(pl.col("mfu").is_not_null()).select(gpu_s).item() / 3600
    basis = f"{convention} over the dense peak; {counted(pooled.runs, 'run')}, {hours:,.0f} GPU-h of logged steps"
    row = pl.DataFrame(
        {
            "cluster": [window.cluster],
            "subject": [window.cluster],
            "metric": [measure],
            "unit": ["ratio"],
            "value": [pooled.value],
            "numerator": [pooled.flop],
            "denominator": [pooled.peak_flop],
            "n": [pooled.n],
            "ci_low": [pooled.low],
            "ci_high": [pooled.high],
            "ci_method": [INTERVAL],
            "evidence_log": [1.0],
            "note": ["; ".join([basis, *([pooled.note] if pooled.note else [])])],
        }
    )
    return as_results(row, window, "cluster")


def allocated_to_runs(source: RowSource, window: Window, steps: pl.DataFrame) -> pl.DataFrame:
    """GPU-seconds that each run was allocated: rows as `metrics.mfu.wall.allocated` returns them.

    Args:
        source: where to read.
        window: cluster and time.
        steps: logged steps of some of the runs. Without any there are no rows: the ledger of all runs is not read.
    """
    sums = frames.empty(frames.LEDGER_SUMS) if steps.is_empty() else ledger_sums(source, window, "run")
    return allocated(sums)


def mfu_wall_run_rows(source: RowSource, window: Window, convention: Convention | None = None) -> pl.DataFrame:
    """MFU over all time that each logged run was allocated GPUs: rows as `metrics.mfu.wall.run_mfu` returns them."""
    used = convention or flop_convention(source, window.cluster)
    steps = step_mfu_rows(source, window, used)
    return run_mfu(steps, allocated_to_runs(source, window, steps))


@result("mfu_wall")
def mfu_wall_rows(source: RowSource, window: Window, of_runs: pl.DataFrame | None = None) -> pl.DataFrame:
    """MFU of all logged runs over all time that they were allocated GPUs, as one result row; none without logs.

    Args:
        source: where to read.
        window: cluster and time.
        of_runs: `mfu_wall_run_rows` of the window by the configured convention, where they are at hand.
    """
    used = flop_convention(source, window.cluster)
    rows = mfu_wall_run_rows(source, window, used) if of_runs is None else of_runs
    by_run = rows.filter(pl.col("value").is_not_null())
    if by_run.is_empty():
        return frames.empty(frames.RESULT)
    runs_logged = counted(by_run.height, "logged run")
    share = by_run.select(exact_sum(pl.col("logged_gpu_s")) / exact_sum(pl.col("allocated_gpu_s"))).item()
    flop, flop_most, peak_flop = (exact_sum(pl.col(name), places=FLOP) for name in ("flop", "flop_most", "peak_flop"))
    row = by_run.select(
        pl.lit(window.cluster).alias("cluster"),
        pl.lit(window.cluster).alias("subject"),
        pl.lit("mfu_wall").alias("metric"),
        pl.lit("ratio").alias("unit"),
        (flop / peak_flop).alias("value"),
        flop.alias("numerator"),
        peak_flop.alias("denominator"),
        pl.len().cast(pl.Int64).alias("n"),
        (flop / peak_flop).alias("bound_low"),
        (flop_most / peak_flop).alias("bound_high"),
        pl.lit(share).alias("evidence_log"),
        pl.lit(1 - share).alias("evidence_accounting"),
        pl.lit(f"{used}; over all time that GPUs were allocated to {runs_logged}").alias("note"),
    )
    return as_results(row, window, "cluster")


def steps_without_mfu(
    source: RowSource, window: Window, convention: Convention | None = None, dtype: str | None = None
) -> float:
    """Share of the kept steps' GPU-time whose log yields no MFU."""
    steps = step_mfu_rows(source, window, convention, dtype=dtype)
    time = pl.col("wall_s") * pl.col("n_gpus").fill_null(1)
    whole, unknown = steps.select(time.sum(), time.filter(pl.col("mfu").is_null()).sum().alias("unknown")).row(0)
    return float(unknown / whole) if whole else 0.0


def mfu_run_rows(
    source: RowSource, window: Window, run_id: str | None = None, measures: tuple[Measure, ...] = ("mfu",)
) -> pl.DataFrame:
    """MFU (and HFU) of each run (or one) under every convention that its log allows: rows of the table `mfu`.

    A run that multiplies in several data types has a row over each one's peak.
    """
    kept = kept_steps(source, window)
    steps = kept if run_id is None else kept.filter(pl.col("run_id") == run_id)
    found = (*measured_steps(steps, measures), *over_lower_peaks(steps, measures))
    return in_order([rows_of_runs(mine, window, convention, measure) for mine, measure, convention in found])


def measured_steps(
    steps: pl.DataFrame,
    measures: Sequence[Measure],
    conventions: Sequence[Convention] = CONVENTIONS,
    *,
    lower_peak: bool = False,
) -> Iterator[tuple[pl.DataFrame, Measure, Convention]]:
    """Steps with their MFU (`step_mfu`) by each measure and convention that their logs allow."""
    if steps.is_empty():  # most clusters have no log
        return
    for measure in measures:
        for convention in conventions:
            mine = step_mfu(steps, convention=convention, measure=measure, lower_peak=lower_peak)
            if mine["flop"].null_count() < mine.height:
                yield mine, measure, convention


def over_lower_peaks(
    steps: pl.DataFrame, measures: Sequence[Measure]
) -> Iterator[tuple[pl.DataFrame, Measure, Convention]]:
    """`measured_steps` of those that multiply in several data types, once more over the lower peak."""
    return measured_steps(steps.filter(mixes(steps)), measures, lower_peak=True)


def in_order(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Rows of runs (`RUN_ROWS`) in one order: by run, measure and convention, the higher peak first."""
    rows = pl.concat([frames.empty(RUN_ROWS), *parts])
    order = [place_among("measure", MEASURES), place_among("convention", CONVENTIONS), -pl.col("peak_flops")]
    return rows.sort("cluster", "run_id", *order)


def headline_mfu(rows: Sequence[dict[str, Any]], convention: str) -> dict[str, Any] | None:
    """The MFU by which a run is named: by a convention, else by the first one that its log allows.

    Args:
        rows: of `mfu_run_rows`, of one run.
        convention: the preferred one.
    """
    measured = [row for row in rows if row["measure"] == "mfu" and row["value"] is not None]
    return min(measured, key=lambda row: row["convention"] != convention, default=None)


def place_among(column: str, names: tuple[str, ...]) -> pl.Expr:
    """The position of each value among these names."""
    return pl.col(column).replace_strict({name: place for place, name in enumerate(names)})


def rows_of_runs(steps: pl.DataFrame, window: Window, convention: Convention, measure: Measure) -> pl.DataFrame:
    """MFU of each run (`RUN_ROWS`) from steps of `measured_steps`."""
    kinds = steps.group_by("cluster", "run_id").agg(
        pl.coalesce("peak_dtype", "dtype").drop_nulls().first().alias("dtype"),
        (pl.col("peak_flop") / pl.col("n_gpus") / pl.col("wall_s")).drop_nulls().first().alias("peak_flops"),
        (pl.col("logged_gpus") != pl.col("n_gpus")).any().alias("_other_gpus"),
    )
    by_run = summary(steps, seed=seed("mfu", convention, *named(window))).join(kinds, on=["cluster", "run_id"])
    other = pl.when("_other_gpus").then(pl.lit(_OTHER_GPUS))
    rows = by_run.filter(pl.col("n") > 0).with_columns(
        window_from=frames.instant(window.since),
        window_until=frames.instant(window.until),
        convention=pl.lit(convention),
        measure=pl.lit(measure),
        numerator="flop",
        denominator="peak_flop",
        value="mfu",
        median="mfu_median",
        mean="mfu_mean",
        note=pl.concat_str([pl.col("note"), other], separator="; ", ignore_nulls=True).replace("", None),
    )
    return frames.conform(rows, RUN_ROWS)


_OTHER_GPUS: Final = "over the GPUs allocated, whose number differs from the log's"

RUN_ROWS: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "run_id": frames.TEXT,
    "window_from": frames.TIME,
    "window_until": frames.TIME,
    "measure": frames.TEXT,
    "convention": frames.TEXT,
    "dtype": frames.TEXT,
    "peak_flops": frames.NUMBER,
    "numerator": frames.NUMBER,
    "denominator": frames.NUMBER,
    "value": frames.NUMBER,
    "mean": frames.NUMBER,
    "median": frames.NUMBER,
    "n": frames.COUNT,
    "ci_low": frames.NUMBER,
    "ci_high": frames.NUMBER,
    "note": frames.TEXT,
}
"""The MFU of a run under one convention: the columns of the table `mfu`."""
