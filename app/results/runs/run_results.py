"""The numbers of each run as rows of the table `run_results`, of which the view `run_metrics` is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.ettr.ettr import FORMS

if TYPE_CHECKING:
    from app.results.runs.job_goodput import JobAccounts
    from app.window import Window

_RUN: Final = ["cluster", "run_id"]

RUN_RESULTS: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "run_id": frames.TEXT,
    "window_from": frames.TIME,
    "window_until": frames.TIME,
    "n_attempts": frames.COUNT,
    "allocated_gpu_s": frames.NUMBER,
    "wall_gpu_s": frames.NUMBER,
    "after_start_gpu_s": frames.NUMBER,
    "productive_gpu_s": frames.NUMBER,
    "saved_gpu_s": frames.NUMBER,
    "imputed_gpu_s": frames.NUMBER,
    **{f"{form}{end}": frames.NUMBER for form in FORMS for end in ("", "_low", "_high")},
    "ettr_imputed": frames.NUMBER,
    "ettr_expected": frames.NUMBER,
    "expected_gpu_s": frames.NUMBER,
    "expected_by": frames.TEXT,
    "expected_evidence": frames.TEXT,
    "goodput_job": frames.NUMBER,
    "job_productive_s": frames.NUMBER,
    "job_s": frames.NUMBER,
    "job_logged": frames.FLAG,
    "job_note": frames.TEXT,
}


def run_result_rows(by_run: pl.DataFrame, expected: pl.DataFrame, jobs: JobAccounts, window: Window) -> pl.DataFrame:
    """ETTR of each run in every form (with bounds), as imputed and as expected, and its job goodput: `RUN_RESULTS`.

    A run that neither held GPUs nor waited for them has a row only if its log has an account.

    Args:
        by_run: as `app.results.ettr.ettr_run_rows` returns it.
        expected: as `app.results.ettr.expected_run_rows` returns it.
        jobs: as `app.results.runs.job_goodput.job_accounts` returns them.
        window: of all of them.
    """
    measured = by_run.with_columns(
        allocated_gpu_s="allocated",
        productive_gpu_s="productive",
        saved_gpu_s=FORMS["ettr_with_checkpoint_writes"][0],
    )
    guessed = (pl.col("restart_from") == "assumed") | (pl.col("interval_from") == "assumed")
    to_expect = expected.select(
        *_RUN,
        ettr_expected="expected",
        expected_gpu_s=pl.col("expected") * pl.col("wall_gpu_s"),
        expected_by=pl.col("regime").str.replace_all("_", " "),
        expected_evidence=pl.when(guessed).then(pl.lit("assumed")).otherwise(pl.lit("accounting")),
    )
    by_job = jobs.runs.select(
        *_RUN,
        goodput_job="value",
        job_productive_s="productive_s",
        job_s="total_s",
        job_logged=pl.lit(value=True),
        job_note="note",
    )
    rows = measured.join(to_expect, on=_RUN, how="left").join(by_job, on=_RUN, how="full", coalesce=True)
    with_window = rows.with_columns(
        window_from=pl.lit(window.since, dtype=frames.TIME),
        window_until=pl.lit(window.until, dtype=frames.TIME),
        job_logged=pl.col("job_logged").fill_null(value=False),
    )
    return frames.conform(with_window, RUN_RESULTS)
