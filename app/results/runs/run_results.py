"""The numbers of each run as rows of the table `run_results`, of which the view `run_metrics` is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.ettr.ettr import FORMS, SUMMED, with_ratios

if TYPE_CHECKING:
    from app.results.runs.job_goodput import JobAccounts

_RUN: Final = ["cluster", "run_id"]

_STORED_AS: Final = {
    name: name if name.endswith("_gpu_s") else f"{name}_gpu_s" for name in (*SUMMED, "wall_gpu_s", "after_start_gpu_s")
}
"""Columns of the table by those of `app.results.ettr.ettr_run_rows`."""

_RATIOS: Final = (*(f"{form}{end}" for form in FORMS for end in ("", "_low", "_high")), "ettr_imputed")

STARTS: Final = ("n_starts", "started_gpus")
"""How often a run started, and on how many GPUs in all."""

OF_LOGS: Final[frames.Schema] = {
    "logged_starts_gpus": frames.NUMBER,
    "interval_s": frames.NUMBER,
    "write_s": frames.NUMBER,
    "goodput_job": frames.NUMBER,
    "job_productive_s": frames.NUMBER,
    "job_s": frames.NUMBER,
    "job_logged": frames.FLAG,
    "job_note": frames.TEXT,
}
"""Columns from a run's log; without one all are null, and `job_logged` is false."""

OF_RUNS: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "run_id": frames.TEXT,
    "inputs": pl.UInt64(),
    "n_attempts": frames.COUNT,
    "milli_gpus": frames.COUNT,
    **dict.fromkeys(_STORED_AS.values(), frames.NUMBER),
    "saved_gpu_s": frames.NUMBER,
    **dict.fromkeys(_RATIOS, frames.NUMBER),
    "n_starts": frames.COUNT,
    "started_gpus": frames.NUMBER,
}
"""The other columns; `n_gpus` as `milli_gpus`."""


SUMS_OF_RUNS: Final[frames.Schema] = {
    name: kind
    for name, kind in OF_RUNS.items()
    if name not in {"saved_gpu_s", *_RATIOS, *(_STORED_AS[each] for each in ("wall_gpu_s", "after_start_gpu_s"))}
}
"""Those of which all others follow."""


def rows_of_runs(digests: pl.DataFrame, by_run: pl.DataFrame, started: pl.DataFrame) -> pl.DataFrame:
    """ETTR of each run in every form (with bounds) and as imputed, and its starts: `OF_RUNS`.

    Args:
        digests: `cluster`, `run_id`, `inputs` of the runs; one that neither held GPUs nor waited for them has no more.
        by_run: as `app.results.ettr.ettr_run_rows` returns it, of these.
        started: as `metrics.ettr.expected.starts` returns it.
    """
    measured = by_run.with_columns(saved_gpu_s=_SAVED).rename(_STORED_AS)
    counted = started.select(*_RUN, *STARTS)
    rows = measured.join(counted, on=_RUN, how="left")
    return frames.conform(digests.join(rows, on=_RUN, how="left"), OF_RUNS)


def by_run_of(sums: pl.DataFrame) -> pl.DataFrame:
    """The rows of `app.results.ettr.ettr_run_rows` of which rows of `OF_RUNS` were made; no times, but `STARTS`.

    Args:
        sums: `SUMS_OF_RUNS`, in the order of runs.
    """
    unknown = sums["n_attempts"].null_count()
    known = sums.filter(pl.col("n_attempts").is_not_null()) if unknown else sums
    return with_ratios(_named(known).drop("inputs"))


def rows_of_sums(sums: pl.DataFrame) -> pl.DataFrame:
    """`OF_RUNS` of `SUMS_OF_RUNS`."""
    rows = with_ratios(_named(sums)).with_columns(saved_gpu_s=_SAVED)
    return frames.conform(rows.rename(_STORED_AS), OF_RUNS)


def _named(sums: pl.DataFrame) -> pl.DataFrame:
    return sums.rename({stored: name for name, stored in _STORED_AS.items() if stored in sums.columns})


_SAVED: Final = pl.col("productive") + pl.col("checkpoint")


def rows_of_logs(jobs: JobAccounts, started: pl.DataFrame, saved: pl.DataFrame) -> pl.DataFrame:
    """Results from logs of runs: `cluster`, `run_id` and `OF_LOGS`.

    Args:
        jobs: as `app.results.runs.job_goodput.job_accounts` returns them.
        started: the GPUs of the logged starts of each run: as `metrics.ettr.expected.logged_gpus` returns it.
        saved: as `metrics.checkpoints.advice.logged_saves` returns it.
    """
    by_job = jobs.runs.select(
        *_RUN,
        goodput_job="value",
        job_productive_s="productive_s",
        job_s="total_s",
        job_logged=pl.lit(value=True),
        job_note="note",
    )
    begun = started.select(*_RUN, logged_starts_gpus="seen_gpus")
    saves = saved.select(*_RUN, "interval_s", "write_s")
    rows = by_job.join(begun, on=_RUN, how="full", coalesce=True).join(saves, on=_RUN, how="full", coalesce=True)
    schema = {"cluster": frames.TEXT, "run_id": frames.TEXT, **OF_LOGS}
    return frames.conform(rows.with_columns(pl.col("job_logged").fill_null(value=False)), schema)
