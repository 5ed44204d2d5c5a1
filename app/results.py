"""Numbers for a cluster and a window: named query -> metric -> rows. The one road to every figure.

`compute` stores what these functions return for the standard windows; `show` and `verify` call them for any other.
So one figure is one number wherever it is seen.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Protocol

import polars as pl

from app.logs import computed_logs
from metrics import frames
from metrics.ettr import ettr_by_run, ettr_total, imputed, waits
from metrics.failure_rates import OVER_128, POOLED, around, buckets, failure_rates
from metrics.goodput import goodput, lost
from metrics.mfu import CONVENTIONS, FACTS, fleet, step_mfu, summary
from metrics.theory import lost_goodput_gpu_s_expr

if TYPE_CHECKING:
    from datetime import datetime

    from metrics.mfu import Convention

DAY_S = 86_400.0
CLAIMED_GPUS = 1024.0
"""Size that the vendors' headline MTTF is quoted at."""


class Source(Protocol):
    """What rows are read from: a published copy, or the warehouse being written."""

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query."""
        ...


@dataclass(frozen=True)
class Window:
    """A cluster between two moments."""

    cluster: str
    since: datetime
    until: datetime


def ledger_sums(source: Source, window: Window, dimension: str) -> pl.DataFrame:
    """GPU-seconds by subject and category within the window."""
    rows = source.query(
        "ledger_sums", cluster=window.cluster, since=window.since, until=window.until, dimension=dimension
    )
    return frames.conform(rows, frames.LEDGER_SUMS)


def goodput_rows(source: Source, window: Window, dimension: str = "cluster") -> pl.DataFrame:
    """Goodput, occupancy and availability as result rows."""
    inventoried = source.query("inventoried")["cluster"]
    found = goodput(ledger_sums(source, window, dimension), inventoried)
    if dimension not in {"cluster", "node", "day"}:  # what nobody held is nobody's
        found = found.filter((pl.col("metric") == "goodput_allocated") & (pl.col("subject") != "(no attempt)"))
    return _as_results(found, window, dimension)


def ettr_run_rows(source: Source, window: Window) -> pl.DataFrame:
    """ETTR and its parts, one row per run."""
    attempts = source.query("attempts", cluster=window.cluster)
    joined = source.query("run_attempts", cluster=window.cluster)
    return ettr_by_run(
        waits(attempts, joined, window.since, window.until),
        ledger_sums(source, window, "run"),
        imputed(attempts, joined, window.since, window.until),
        source.query("runs", cluster=window.cluster, since=window.since, until=window.until).with_columns(
            milli_gpus=(pl.col("n_gpus") * 1000).cast(pl.Int64)
        ),
    )


def ettr_rows(source: Source, window: Window, *, min_run_s: float = 0.0) -> pl.DataFrame:
    """ETTR of the cluster as result rows: all forms, over runs with at least `min_run_s` of scheduled time."""
    by_run = ettr_run_rows(source, window)
    total = ettr_total(by_run.filter(long_enough(min_run_s)))
    if total.is_empty():
        return frames.empty(frames.RESULT)
    return _as_results(pl.concat([_ettr_form(total, *form) for form in _ETTR_FORMS]), window, "cluster")


def long_enough(min_run_s: float) -> pl.Expr:
    """Runs whose GPUs were allocated for at least so many seconds in the window."""
    return pl.col("allocated") * 1000 / pl.col("milli_gpus") >= min_run_s


_ETTR_FORMS = (
    ("ettr", "ettr", "productive", "wall_gpu_s"),
    ("ettr_without_initial_queue", "ettr_without_initial_queue", "productive", "after_start_gpu_s"),
    ("ettr_imputed", "ettr_imputed", "imputed_gpu_s", "wall_gpu_s"),
)


def _ettr_form(total: pl.DataFrame, metric: str, column: str, numerator: str, denominator: str) -> pl.DataFrame:
    table = total.with_columns(
        after_start_gpu_s=pl.col("allocated") + pl.col("queued_requeue"),
    ).with_columns(
        by_accounting=pl.col("by_accounting") + (pl.col(denominator) - pl.col("allocated")),  # it tells of waits
    )
    assumed = metric == "ettr_imputed"
    said = pl.format(
        "cannot tell: {} % of the allocated GPU-time is unattributed", (pl.col("unseen_share") * 100).round(1)
    )
    shares = [
        (
            pl.lit(float(kind == "assumed"))
            if assumed
            else pl.when(pl.col(denominator) > 0).then(pl.col(f"by_{kind}") / pl.col(denominator))
        ).alias(f"evidence_{kind}")
        for kind in ("log", "telemetry", "accounting", "assumed")
    ]
    return table.select(
        "cluster",
        pl.col("cluster").alias("subject"),
        pl.lit(metric).alias("metric"),
        pl.lit("ratio").alias("unit"),
        pl.col(column).alias("value"),
        pl.col(numerator).alias("numerator"),
        pl.col(denominator).alias("denominator"),
        "n",
        (pl.lit(None, dtype=pl.Float64) if assumed else pl.col(f"{column}_low")).alias("bound_low"),
        (pl.lit(None, dtype=pl.Float64) if assumed else pl.col(f"{column}_high")).alias("bound_high"),
        *shares,
        (
            pl.lit("assumed: hourly checkpoints, 5 min to restart, every end an interruption")
            if assumed
            else pl.when(pl.col(column).is_null()).then(said)
        ).alias("note"),
    )


def failure_rate_rows(source: Source, window: Window, *, claimed_gpus: float = CLAIMED_GPUS) -> pl.DataFrame:
    """Failure rates and MTTF by class, way of counting and size."""
    attempts = source.query("attempts", cluster=window.cluster)
    events = source.query("interruptions", cluster=window.cluster, since=window.since, until=window.until)
    largest = attempts["milli_gpus"].max()
    top = largest / 1000 if isinstance(largest, int) else 0.0
    sizes = [POOLED, OVER_128, *buckets(top), around(claimed_gpus)]
    found = failure_rates(attempts, events, window.since, window.until, sizes)
    return found.with_columns(cluster=pl.lit(window.cluster))


def restart_rows(source: Source, window: Window) -> pl.DataFrame:
    """One row per restart in the window."""
    return source.query("restarts", cluster=window.cluster, since=window.since, until=window.until)


def resolve_run(source: Source, cluster: str, text: str) -> list[str]:
    """Run ids that a person may mean: the run of that id, else those of the job with that id, the newest first."""
    known = source.query("run_attempts", cluster=cluster)["run_id"].unique()
    if text in known:
        return [text]
    return [str(each) for each in source.query("runs_of_job", cluster=cluster, job_id=text)["run_id"]]


def interruption_costs(source: Source, window: Window) -> pl.DataFrame:
    """What interruptions cost, the newest first.

    Returns:
        `cluster`, `run_id`, `attempt_no`, `job_id`, `submitted_at`, `ended_at`, `class`, `cause`, `node`, `n_gpus`,
        `cost_gpu_s`: GPU-seconds of the interrupted attempt that were lost or stalled, but for what restarts in place
        took, and of the next one's startup; null where more than a tenth of the attempt was not seen. The components
        of a heterogeneous job are interrupted once, and are one row.
    """
    return source.query("interruption_costs", cluster=window.cluster, since=window.since, until=window.until)


def priced_interruptions(source: Source, window: Window) -> pl.DataFrame:
    """Interruptions, the newest first, each with what it cost.

    Returns:
        The named query `interruptions`, and `cost_gpu_s` as `interruption_costs` has it.
    """
    which = ["run_id", "attempt_no"]
    return (
        source.query("interruptions", cluster=window.cluster, since=window.since, until=window.until)
        .join(interruption_costs(source, window).select(*which, "cost_gpu_s"), on=which, how="left")
        .sort("ended_at", "job_id", descending=[True, False])
    )


def node_failures(source: Source, window: Window) -> pl.DataFrame:
    """What infrastructure interruptions that name a node cost, by node, the most first.

    Returns:
        `cluster`, `node`, `interruptions`, `unpriced` (those whose cost cannot be told), `cause` (the most frequent),
        `cost_gpu_s`: GPU-seconds of those whose cost can be told, so the least it can be; null where none can.
    """
    cost = pl.col("cost_gpu_s")
    return (
        interruption_costs(source, window)
        .filter((pl.col("class") == "infrastructure") & pl.col("node").is_not_null())
        .group_by("cluster", "node")
        .agg(
            pl.len().alias("interruptions"),
            cost.null_count().alias("unpriced"),
            pl.col("cause").drop_nulls().mode().sort().first(),
            pl.when(cost.is_not_null().any()).then(cost.sum()),
        )
        .sort(cost.fill_null(0.0), "interruptions", "node", descending=[True, True, False])
    )


def run_timeline(source: Source, cluster: str, run_id: str) -> pl.DataFrame:
    """What the GPUs of a run did when, and when it waited for them (category `queued`): one row per interval.

    Returns:
        `attempt_no`, `job_id`, `submitted_at`, `started_at`, `ended_at`, `category`, `cause`, `evidence`, `gpus`.
    """
    return source.query("run_timeline", cluster=cluster, run_id=run_id)


def run_steps(source: Source, cluster: str, run_id: str) -> pl.DataFrame:
    """Every execution of a step that a run logged.

    Returns:
        `attempt_no`, `step`, `ts`, `duration_s`, `tokens`, `loss`, `kept`; in the order of time.
    """
    _, executed = computed_logs(source, cluster)
    joined = source.query("run_attempts", cluster=cluster).select(*frames.ATTEMPT_KEY, "attempt_no")
    return (
        executed.filter(pl.col("run") == run_id)
        .join(joined, on=list(frames.ATTEMPT_KEY))
        .sort("ts", "step")
        .select("attempt_no", "step", "ts", "duration_s", "tokens", "loss", "kept")
    )


def step_mfu_rows(source: Source, window: Window, convention: Convention | None = None) -> pl.DataFrame:
    """MFU of every kept step that began in the window, under a convention (by default the configured one).

    Returns:
        As `metrics.mfu.step_mfu`, with `run_id` as the runs are joined; a step's time is `wall_s` of the step log:
        data loading is in it, checkpoints, evaluation and hangs are not.
    """
    steps = _kept_steps(source, window)
    return step_mfu(steps, convention=convention or flop_convention(source, window.cluster))


def _kept_steps(source: Source, window: Window) -> pl.DataFrame:
    """Kept steps that began in the window, with the facts of their sessions."""
    logs, executed = computed_logs(source, window.cluster)
    low, high = pl.lit(window.since, dtype=frames.TIME), pl.lit(window.until, dtype=frames.TIME)
    kept = executed.filter(pl.col("kept") & (pl.col("ts") >= low) & (pl.col("ts") < high))
    return kept.join(logs.sessions.select("session", *FACTS), on="session").with_columns(run_id="run")


def flop_convention(source: Source, cluster: str) -> Convention:
    """The convention that the headline MFU of a cluster was computed with."""
    found: Convention = json.loads(source.query("computed", cluster=cluster)["constants"].item())["flop_convention"]
    return found


def mfu_rows(source: Source, window: Window, convention: Convention | None = None) -> pl.DataFrame:
    """MFU of the cluster over kept steps, as one result row; none if nothing was logged in the window.

    `value` is the model FLOP of all steps over the peak FLOP of their GPUs in that time; the interval is a bootstrap
    of blocks of consecutive steps.
    """
    used = convention or flop_convention(source, window.cluster)
    steps = step_mfu_rows(source, window, used)
    if steps.is_empty():
        return frames.empty(frames.RESULT)
    found = fleet(steps, seed=_seed("mfu", used, *_named(window)))
    hours = steps.filter(pl.col("mfu").is_not_null()).select((pl.col("n_gpus") * pl.col("wall_s")).sum()).item() / 3600
    said = f"{used} over the dense peak; {found.runs} runs, {hours:,.0f} GPU-h of logged steps"
    row = pl.DataFrame(
        {
            "cluster": [window.cluster],
            "subject": [window.cluster],
            "metric": ["mfu"],
            "unit": ["ratio"],
            "value": [found.value],
            "numerator": [found.flop],
            "denominator": [found.peak_flop],
            "n": [found.n],
            "ci_low": [found.low],
            "ci_high": [found.high],
            "ci_method": ["BCa bootstrap over blocks of steps, 95 %"],
            "evidence_log": [1.0],
            "note": ["; ".join([said, *([found.note] if found.note else [])])],
        }
    )
    return _as_results(row, window, "cluster")


def steps_without_mfu(source: Source, window: Window, convention: Convention | None = None) -> float:
    """Share of the kept steps' GPU-time of which the log does not tell an MFU."""
    steps = step_mfu_rows(source, window, convention)
    time = pl.col("wall_s") * pl.col("n_gpus").fill_null(1)
    whole, unknown = steps.select(time.sum(), time.filter(pl.col("mfu").is_null()).sum().alias("unknown")).row(0)
    return float(unknown / whole) if whole else 0.0


def mfu_run_rows(source: Source, window: Window, run_id: str | None = None) -> pl.DataFrame:
    """MFU of each run (or one) under every convention that its log allows: rows of the table `mfu`."""
    found = []
    kept = _kept_steps(source, window)
    steps = kept if run_id is None else kept.filter(pl.col("run_id") == run_id)
    for convention in CONVENTIONS:
        mine = step_mfu(steps, convention=convention)
        if mine["flop"].null_count() == mine.height:  # this log cannot tell it
            continue
        kinds = mine.group_by("cluster", "run_id").agg(
            pl.col("dtype").drop_nulls().first(),
            (pl.col("peak_flop") / pl.col("n_gpus") / pl.col("wall_s")).drop_nulls().first().alias("peak_flops"),
        )
        by_run = summary(mine, seed=_seed("mfu", convention, *_named(window))).join(kinds, on=["cluster", "run_id"])
        found.append(by_run.filter(pl.col("n") > 0).with_columns(convention=pl.lit(convention)))
    if not found:
        return pl.DataFrame(schema=_MFU)
    return frames.conform(
        pl.concat(found).with_columns(
            window_from=pl.lit(window.since, dtype=frames.TIME),
            window_until=pl.lit(window.until, dtype=frames.TIME),
            numerator="flop",
            denominator="peak_flop",
            value="mfu",
            median="mfu_median",
        ),
        _MFU,
    ).sort("cluster", "run_id", "convention")


_MFU: frames.Schema = {
    "cluster": frames.TEXT,
    "run_id": frames.TEXT,
    "window_from": frames.TIME,
    "window_until": frames.TIME,
    "convention": frames.TEXT,
    "dtype": frames.TEXT,
    "peak_flops": frames.NUMBER,
    "numerator": frames.NUMBER,
    "denominator": frames.NUMBER,
    "value": frames.NUMBER,
    "median": frames.NUMBER,
    "n": frames.COUNT,
    "ci_low": frames.NUMBER,
    "ci_high": frames.NUMBER,
    "note": frames.TEXT,
}


def _seed(*asked: str) -> int:
    """The same question gets the same resampling, and so the same answer."""
    return int.from_bytes(hashlib.sha256("\0".join(asked).encode()).digest()[:4], "big")


def _named(window: Window) -> tuple[str, str, str]:
    return window.cluster, window.since.astimezone(UTC).isoformat(), window.until.astimezone(UTC).isoformat()


def lost_rows(source: Source, window: Window, dimension: str = "cluster") -> pl.DataFrame:
    """Where all GPU-time went, largest first."""
    return lost(ledger_sums(source, window, dimension))


def lost_imputed_rows(source: Source, window: Window) -> pl.DataFrame:
    """GPU-seconds that infrastructure interruptions cost by Meta's assumption, as one result row."""
    events = source.query("interruptions", cluster=window.cluster, since=window.since, until=window.until)
    failed = events.filter((pl.col("class") == "infrastructure") & (pl.col("milli_gpus") > 0))
    amount = failed.select(lost_goodput_gpu_s_expr(pl.col("runtime_s"), pl.col("milli_gpus") / 1000).sum()).item()
    row = pl.DataFrame(
        {
            "cluster": [window.cluster],
            "subject": [window.cluster],
            "metric": ["lost_imputed"],
            "unit": ["gpu_s"],
            "value": [float(amount)],
            "n": [failed.height],
            "evidence_assumed": [1.0],
            "note": ["assumed: half an hourly checkpoint interval lost per interruption"],
        }
    )
    return _as_results(row, window, "cluster")


def _as_results(found: pl.DataFrame, window: Window, dimension: str) -> pl.DataFrame:
    return frames.conform(
        found.with_columns(
            window_from=pl.lit(window.since, dtype=frames.TIME),
            window_until=pl.lit(window.until, dtype=frames.TIME),
            dimension=pl.lit(dimension),
        ),
        frames.RESULT,
    )
