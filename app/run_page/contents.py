"""The numbers of the page about a run, by the functions that `trackside show` uses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.results.checkpoints import checkpoint_rows
from app.results.constants import computed_constants
from app.results.ettr import ettr_run_rows
from app.results.failures.interruptions import every_restart, priced_interruptions
from app.results.mfu import headline_mfu, mfu_run_rows, mfu_wall_run_rows
from app.results.runs.job_goodput import job_accounts
from app.results.runs.run_logs import computed_logs
from app.results.telemetry.gpu_activity import VERIFICATION
from app.results.usage import recorded_use
from app.results.windows import ledger_sums
from app.run_page.log_only import LogOnly, last_line, log_of
from app.run_page.one_run import OneRun
from app.run_page.slowness import slowness
from app.window import Window
from ingest.counted import counted
from metrics import frames
from metrics.mfu.flops import MEASURES
from metrics.runs.steps import StepRules
from metrics.telemetry.utilisation import utilisation

if TYPE_CHECKING:
    from datetime import datetime

    from app.config.settings import Rules
    from app.run_page.request import RunChoice
    from app.window import RowSource
    from queries.warehouse import Reader

Row = dict[str, Any]

QUEUED_FIRST: Final = "queued"
QUEUED_AGAIN: Final = "requeued"
"""Categories of the page beside those of the ledger: waiting for the first start, and between attempts."""


@dataclass(frozen=True)
class TimeShare:
    """A category of a run's time.

    Attributes:
        category: of the ledger, or `QUEUED_FIRST`, `QUEUED_AGAIN`.
        gpu_s: GPU-seconds; seconds of the run where its GPUs are unknown.
        causes: cause and its share of `gpu_s` in the same unit, the largest first; those without a cause left out.
    """

    category: str
    gpu_s: float
    causes: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class StepCounts:
    """What the logs of a run record of its steps.

    Attributes:
        executed: executions of steps.
        lost: of these, executed again later.
        first: number of the first step.
        last: the highest one.
        median_s: median duration, null where no step records one.
        checkpoints: saves.
        between: numbers of steps between what one process logged and what a later one did: they are in no log.
        before: steps that processes may have run again before the first value that they logged, where only every n-th
            step has one.
        earlier: whether the log begins in the middle of training: steps before its first one are not in it.
    """

    executed: int
    lost: int
    first: int
    last: int
    median_s: float | None
    checkpoints: int
    between: int = 0
    before: int = 0
    earlier: bool = False


@dataclass(frozen=True)
class RunContents:
    """All that the page shows.

    Attributes:
        choice: the run, and how it was chosen.
        window: of the numbers: all of the computed data, or from the first line of the log to its last.
        run: its row of `runs`.
        attempts: rows of the named query `run_facts`; of a log alone, its processes.
        ettr: its row of `ettr_run_rows`; None where the run held no GPUs.
        parts: its time by category; they add up to `wall_gpu_s` of `ettr`.
        interruptions: as `priced_interruptions` returns them.
        restarts: rows of `every_restart`.
        steps: None without a log.
        gone_before: the run that its log may go on from, with its `last_step`; None: the log begins with training, or
            no run is called alike.
        goodput: its row of `job_accounts`.
        mfu: rows of `mfu_run_rows`.
        log_lacks: facts that MFU needs and that no process of the run logs.
        layout: what its log records of `frames.LAYOUT`: parallel sizes, ids, the speed that the log prints itself.
        mfu_wall: the share of the allocated time that the steps of these take; None where it is unknown.
        convention: that of the headline MFU.
        activity: its row of `utilisation`; None without telemetry.
        memory: memory in use on its GPUs.
        node_memory: memory in use on its nodes.
        health: incidents on its nodes.
        slow: days on which its steps took longer than the ideal one.
        stragglers: its sessions with times of ranks, as `SESSION_STRAGGLERS`.
        stalls: its stalls, as `STALLS`.
        checkpoints: its row of `checkpoint_rows`; None without a log.
        recorded: what accounting records of the use by its attempts, rows of `recorded_use`.
        log_read: end of the log, and when it was last read: of a log alone.
        warnings: what makes the numbers older than the data.
    """

    choice: RunChoice
    window: Window
    run: Row
    attempts: list[Row]
    ettr: Row | None = None
    parts: tuple[TimeShare, ...] = ()
    interruptions: list[Row] = field(default_factory=list)
    restarts: list[Row] = field(default_factory=list)
    steps: StepCounts | None = None
    gone_before: Row | None = None
    goodput: Row | None = None
    mfu: list[Row] = field(default_factory=list)
    log_lacks: tuple[str, ...] = ()
    mfu_wall: float | None = None
    layout: Row = field(default_factory=dict)
    convention: str = ""
    activity: Row | None = None
    memory: Row | None = None
    node_memory: Row | None = None
    health: list[Row] = field(default_factory=list)
    slow: list[Row] = field(default_factory=list)
    stragglers: list[Row] = field(default_factory=list)
    stalls: list[Row] = field(default_factory=list)
    checkpoints: Row | None = None
    recorded: list[Row] = field(default_factory=list)
    log_read: tuple[datetime, datetime | None] | None = None
    warnings: tuple[str, ...] = ()

    @property
    def gpus(self) -> float | None:
        """Most GPUs held at once; None: unknown, or never held."""
        value = self.run["n_gpus"]
        return None if value is None else float(value)

    @property
    def unit(self) -> str:
        """What its time is counted in: hours of the run where its GPUs are unknown."""
        return "GPU-h" if self.gpus else "h"

    @property
    def started(self) -> bool:
        """Whether it ever held nodes."""
        return self.run["started_at"] is not None

    @property
    def over(self) -> bool:
        """Whether nothing of it runs or waits any more."""
        return self.run["ended_at"] is not None


def gather(reader: Reader, choice: RunChoice, rules: Rules, log: LogOnly | None = None) -> RunContents:
    """Read the numbers of a run.

    Args:
        reader: the published copy.
        choice: the run.
        rules: those of the configuration: when a pause is a hang.
        log: `log_of` the run, where it is at hand: of a run that only its log describes.
    """
    contents = (
        _of_log(log or log_of(reader, choice.cluster, choice.run_id, rules), choice, rules)
        if choice.logged_only
        else _of_accounting(reader, choice)
    )
    source = OneRun(reader, choice.cluster, choice.run_id)
    logs = source.query("run_sessions", cluster=choice.cluster)["run_id"].to_list()
    jobs = [] if choice.logged_only else [row["job_id"] for row in contents.attempts]
    if contents.steps is not None and contents.steps.earlier:
        contents = replace(contents, gone_before=_preceding_run(reader, choice, contents))
    name = (*logs, *jobs, choice.run_id)[0]
    step_rules = StepRules(rules.hang_steps, rules.hang_min_s)
    stragglers, stalls = slowness(source, contents.window, name, step_rules)
    return replace(contents, stragglers=stragglers, stalls=stalls)


# --- by accounting, and what else is known ---------------------------------------------------------------------------


def _of_accounting(reader: Reader, choice: RunChoice) -> RunContents:
    cluster, run_id = choice.cluster, choice.run_id
    source = OneRun(reader, cluster, run_id)
    computed = source.query("computed", cluster=cluster).row(0, named=True)
    window = Window(cluster, computed["since"], computed["until"])
    mine = pl.col("run_id") == run_id
    ettr = _row(ettr_run_rows(source, window).filter(mine))
    logged = _of_steps(source, window, run_id)
    return RunContents(
        choice=choice,
        window=window,
        run=_run(reader, window, run_id),
        attempts=source.query("run_facts", cluster=cluster, run_id=run_id).to_dicts(),
        ettr=ettr,
        parts=_parts(source, window, run_id, ettr),
        interruptions=priced_interruptions(source, window).filter(mine).to_dicts(),
        restarts=every_restart(source, window).filter(mine).to_dicts(),
        **logged,
        activity=_activity(source, window, run_id),
        memory=_row(source.query("run_gpu_memory", cluster=cluster, run_id=run_id)),
        node_memory=_row(source.query("run_node_memory", cluster=cluster, run_id=run_id)),
        health=source.query("run_health", cluster=cluster, run_id=run_id).to_dicts(),
        slow=source.query("run_slow_days", cluster=cluster, run_id=run_id).to_dicts(),
        checkpoints=_row(checkpoint_rows(source, window).filter(mine)) if "steps" in logged else None,
        recorded=_recorded(source, window),
        warnings=_warnings(source, cluster),
    )


NUMBERS: Final = r"\d+|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
"""What differs between the names that PyTorch's SummaryWriter and Lightning give to the processes of one training."""


def _preceding_run(reader: Reader, choice: RunChoice, contents: RunContents) -> Row | None:
    """The run that may be the same training before it was started again; None: none is called alike.

    Where a name is nothing but a number, such as that of a job, all others of the kind would be alike.
    """
    alike = re.sub(NUMBERS, "#", choice.run_id)
    if not re.search(r"[^\W\d_]", alike):
        return None
    return _row(
        reader.query(
            "run_gone_before",
            cluster=choice.cluster,
            run_id=choice.run_id,
            numbers=NUMBERS,
            alike=alike,
            begin=contents.run["started_at"],
            first_step=contents.steps.first if contents.steps else 0,
        )
    )


def _run(reader: Reader, window: Window, run_id: str) -> Row:
    """The run's row: also of one that had no time in the window."""
    return reader.query("run_row", cluster=window.cluster, run_id=run_id).row(0, named=True)


def _row(rows: pl.DataFrame) -> Row | None:
    return rows.row(0, named=True) if rows.height else None


def _warnings(source: RowSource, cluster: str) -> tuple[str, ...]:
    newer = source.query("loads_since_computed", cluster=cluster)["loads"].item()
    return (f"{counted(newer, 'load')} since the last computation; run: trackside compute",) if newer else ()


def _parts(source: RowSource, window: Window, run_id: str, ettr: Row | None) -> tuple[TimeShare, ...]:
    """The run's time by category: what its GPUs did, and what it waited."""
    if ettr is None:
        return ()
    sums = (
        ledger_sums(source, window, "run")
        .filter(pl.col("subject") == run_id)
        .select("category", "cause", pl.col("gpu_seconds").cast(pl.Float64))
        .group_by("category", "cause")
        .agg(pl.col("gpu_seconds").sum())
        .sort("gpu_seconds", "category", "cause", descending=[True, False, False])
    )
    held = {}
    for category, rows in sums.partition_by("category", as_dict=True, maintain_order=True).items():
        causes = tuple((cause, gpu_s) for cause, gpu_s in rows.select("cause", "gpu_seconds").rows() if cause)
        held[str(category[0])] = TimeShare(str(category[0]), float(rows["gpu_seconds"].sum()), causes)
    waits = [
        TimeShare(QUEUED_FIRST, float(ettr["queued_initial"])),
        TimeShare(QUEUED_AGAIN, float(ettr["queued_requeue"])),
    ]
    return tuple(part for part in (*held.values(), *waits) if part.gpu_s > 0)


# --- what logs record ------------------------------------------------------------------------------------------------


def _of_steps(source: RowSource, window: Window, run_id: str) -> Row:
    """What the logs of a run give: fields of `RunContents`."""
    logs, executed = computed_logs(source, window.cluster)
    mine = executed.filter(pl.col("run") == run_id)
    convention = computed_constants(source, window.cluster).get("flop_convention", "")
    if mine.is_empty():
        return {"convention": convention}
    own = logs.sessions.filter((pl.col("run") == run_id) & pl.col("usable"))
    saves = logs.events.filter(pl.col("kind") == "checkpoint_save").join(
        own.select("run_id", "scheduler", "job_id").unique(), on=["run_id", "scheduler", "job_id"], how="semi"
    )
    accounts = job_accounts(source, window).runs.filter(pl.col("run_id") == run_id)
    measured = mfu_run_rows(source, window, run_id, MEASURES).filter(pl.col("run_id") == run_id)
    headline = headline_mfu(measured.to_dicts(), convention)
    used = None if headline is None else headline["convention"]
    wall = mfu_wall_run_rows(source, window, used).filter(pl.col("run_id") == run_id)
    return {
        "convention": convention,
        "steps": _steps(mine, saves.height),
        "goodput": _row(accounts),
        "mfu": measured.to_dicts(),
        "log_lacks": lacking(own, mine),
        "layout": _layout(own),
        "mfu_wall": wall["step_share"].item() if wall.height else None,
    }


def lacking(sessions: pl.DataFrame, steps: pl.DataFrame) -> tuple[str, ...]:
    """What MFU needs and the log does not have, by the names of `--set`; "tokens" are those of the steps.

    Args:
        sessions: rows of `run_sessions`.
        steps: its steps, with `tokens`.
    """
    known = {name for name in (*_NEEDED, *_SIZES) if name in sessions.columns and sessions[name].count()}
    absent = [] if "tokens" in steps.columns and steps["tokens"].count() else ["tokens"]
    absent += [name for name in _NEEDED if name not in known]
    return (*absent, *(() if known & set(_SIZES) else ("params",)))


_NEEDED: Final = ("n_gpus", "gpu_model", "dtype")
_SIZES: Final = ("params", "params_active", "flops_per_token")
"""The size of the model; one of them is enough."""


def _layout(sessions: pl.DataFrame) -> Row:
    """The newest of each fact; the speed that the logs print is the mean over their steps."""
    printed = ("printed_tflops", "printed_mfu")
    steps = pl.col("printed_steps")
    newest = sessions.sort("started_at").select(pl.col(*frames.LAYOUT).drop_nulls().last())
    weights = {name: steps.filter(pl.col(name).is_not_null()) for name in printed}
    mean = ((pl.col(name).drop_nulls() * weight).sum() / weight.sum() for name, weight in weights.items())
    means = sessions.select(*mean, steps.sum()).fill_nan(None)
    known = newest.row(0, named=True) | means.row(0, named=True)
    return {
        name: value
        for name, value in known.items()
        if value is not None and not (name == "printed_steps" and not value)
    }


def _steps(mine: pl.DataFrame, checkpoints: int) -> StepCounts:
    row = mine.select(
        executed=pl.len(),
        lost=(~pl.col("kept")).sum(),
        first=pl.col("step").min(),
        last=pl.col("step").max(),
        median_s=pl.col("duration_s").median(),
    ).row(0, named=True)
    return StepCounts(**row, checkpoints=checkpoints, **_not_logged(mine))


def _not_logged(mine: pl.DataFrame) -> dict[str, Any]:
    """Steps that no log of a run has: `between` its processes, `before` the first value of a later one, and `earlier`.

    Of every n-th step alone there is a value (a loss); a first step that has one counts for itself, and not for the
    steps between the checkpoint that its process loaded and itself.
    """
    step, has_value = pl.col("step"), pl.col("loss").is_not_null()
    sessions = (
        mine.sort("ts", "step")
        .group_by("session", "stream", maintain_order=True)
        .agg(
            first=step.first(),
            last=step.max(),
            is_alone=has_value.first(),
            apart=step.filter(has_value).diff().filter(step.filter(has_value).diff() > 0).median(),
        )
    )
    reached = pl.col("last").cum_max().shift(1).over("stream")
    before = pl.min_horizontal(pl.col("first") - 1, reached) - (pl.col("first") - pl.col("apart").cast(pl.Int64))
    own = pl.when("is_alone").then("apart")
    return sessions.select(
        earlier=pl.col("first").first() > pl.coalesce(own, pl.lit(1.0)).first(),
        between=(pl.col("first") - reached - 1).clip(lower_bound=0).sum(),
        before=before.filter(pl.col("is_alone") & (pl.col("apart") > 1) & reached.is_not_null())
        .clip(lower_bound=0)
        .sum(),
    ).row(0, named=True)


# --- telemetry -------------------------------------------------------------------------------------------------------


def _activity(source: RowSource, window: Window, run_id: str) -> Row | None:
    """What the GPUs did, as `show utilisation --by run` computes it; None where no sample covers them."""
    key = list(frames.ATTEMPT_KEY)
    joined = source.query("run_attempts", cluster=window.cluster).filter(pl.col("run_id") == run_id)
    own = joined.select(*key, pl.col("run_id").alias("subject"))
    stored = source.query("attempt_activity", cluster=window.cluster).filter(~pl.col(VERIFICATION))
    sums = stored.join(own, on=key).drop(VERIFICATION)
    if sums.is_empty():
        return None
    held = source.query("allocated_to_attempts", **window.parameters).with_columns(cluster=pl.lit(window.cluster))
    return _row(utilisation(sums, held.join(own, on=key).select("subject", "allocated_s"), ["subject"]))


def _recorded(source: OneRun, window: Window) -> list[Row]:
    """What accounting records of the run's attempts, and no others of its jobs."""
    own = source.query("run_attempts", cluster=window.cluster).filter(pl.col("run_id") == source.run_id)
    return recorded_use(source, window.cluster).join(own, on=list(frames.ATTEMPT_KEY), how="semi").to_dicts()


# --- of a log alone --------------------------------------------------------------------------------------------------


def _of_log(shares: LogOnly, choice: RunChoice, rules: Rules) -> RunContents:
    cluster, run_id, logged = choice.cluster, choice.run_id, shares.logged
    known = shares if logged.gpus else LogOnly(logged, cluster, run_id, rules, gpus=None)
    window = known.window
    ettr = _row(ettr_run_rows(shares, window))
    advice = _row(checkpoint_rows(shares, window, rates=shares.failure_rate()))
    sessions = logged.sessions
    return RunContents(
        choice=choice,
        window=window,
        run=known.query("runs").row(0, named=True),
        attempts=_processes(known, sessions),
        ettr=ettr,
        parts=_parts(shares, window, run_id, ettr),
        **_of_steps(known, window, run_id),
        checkpoints=advice,
        log_read=last_line(logged),
    )


def _processes(known: LogOnly, sessions: pl.DataFrame) -> list[Row]:
    """The processes of a log, with how long nothing was logged before each, and the steps that each executed."""
    _, executed = computed_logs(known, known.window.cluster)
    steps = executed.group_by("submitted_at").agg(
        first=pl.col("step").min(), last=pl.col("step").max(), lost=(~pl.col("kept")).sum()
    )
    gap = frames.seconds(pl.col("started_at") - pl.col("ended_at").shift(1))
    facts = sessions.select(pl.col("gpu_model", "node", "world", "n_gpus").drop_nulls().first())
    rows = known.attempts.with_columns(gap_s=gap, attempt_no=pl.int_range(1, pl.len() + 1))
    return rows.join(steps, on="submitted_at", how="left").join(facts, how="cross").sort("started_at").to_dicts()
