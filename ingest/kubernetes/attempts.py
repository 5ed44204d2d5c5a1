"""Attempts of workloads from their pods, as a batch scheduler would have accounted them.

A workload is the outermost object that controls pods: the TrainJob above a JobSet above Jobs, a step of an Argo
Workflow, a pod that nothing (or only a ReplicaSet, StatefulSet or DaemonSet) controls. It is one job, and its pods are
one gang. A pod that takes the place (`slot`) of an earlier one begins a new attempt of the whole gang; replacements
within `TOGETHER_S` are one restart. Pods that live on across a restart hold their GPUs in both attempts, each for its
part of the time: every second of a pod is in exactly one attempt. With such pods it is the failure of the replaced ones
that ends the attempt, which is before the replacements are created.

A pod holds GPUs on its node from its assignment until its last container ends. A pod that a later list of its namespace
lacks, or whose workload ended later, has ended unobserved: its end is its workload's, else the latest observation,
which is marked as guessed. The end of a finished pod without a time (evicted, node lost) is marked as guessed, too: it
is the last time at which the pod was observed alive.

An attempt starts with its first pod that has GPUs, and has the nodes of those. Its GPUs are the most that its pods held
at once: successive pods (a Job with less parallelism than completions) hold the same ones. Pods without GPUs count for
the course and the end of the attempt, except those that ended before it (they fetch data or a model) or come after it.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from ingest.kubernetes.at_once import FAR, held_at_once, most_at_once
from ingest.kubernetes.evictions import stopped_of
from ingest.kubernetes.gangs import POD_GROUP
from ingest.kubernetes.in_place import ENDS, executions
from ingest.kubernetes.lists import with_last_list
from ingest.kubernetes.places import with_taken_places
from ingest.kubernetes.pods import WORK
from ingest.kubernetes.workloads import KUBEFLOW, MACHINES, RAY, WORKFLOW
from ingest.tables import ATTEMPTS, columns_of

TOGETHER_S: Final = 120
"""Seconds between replaced pods that still are one restart."""

PLACEMENTS: Final = columns_of("placements")

ENDED_BY: Final = ("NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "TIMEOUT", "FAILED")
"""Of the states of the pods of an attempt, the first of these is its state: the others follow from it."""

OF_EVICTION: Final = {
    "Preempted": "PREEMPTED",
    "NodeFailures": "NODE_FAIL",
    "MaximumExecutionTimeExceeded": "TIMEOUT",
}
"""Slurm's states for evictions by Kueue, by their reason; all others are cancellations."""

_JOB: Final = ("cluster", "job")
_ATTEMPT: Final = ("cluster", "job", "attempt")
NO_ORDERS: Final = pl.DataFrame(
    schema={name: columns_of("evictions")[name] for name in ("cluster", "job_id", "evicted_at", "reason")}
)
NO_ENDS: Final = pl.DataFrame(schema=ENDS)
NOTHING_REMEMBERED: Final = pl.DataFrame(
    schema={
        **dict.fromkeys(("cluster", "job_id"), pl.String),
        **dict.fromkeys(("reserved_at", "requeued_at"), NO_ORDERS.schema["evicted_at"]),
    }
)


def attempts_of(
    pods: pl.DataFrame,
    workloads: pl.DataFrame,
    lists: pl.DataFrame,
    aliases: pl.DataFrame,
    orders: pl.DataFrame = NO_ORDERS,
    *,
    remembered: pl.DataFrame = NOTHING_REMEMBERED,
    ends: pl.DataFrame = NO_ENDS,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The attempts of workloads that hold GPUs, and their placements.

    Args:
        pods: all pods of the workloads, `with_roots`.
        workloads: rows of `workloads`.
        lists: rows of `object_lists`.
        aliases: `cluster`, `name`, `node`: Slurm's names of the nodes that run slurmd in a pod.
        orders: `cluster`, `job_id`, `evicted_at`, `reason`: evictions that Kueue ordered.
        remembered: `cluster`, `job_id`, `reserved_at`, `requeued_at`: preemptions whose own time is unknown
            (`remembered_of`).
        ends: rows of `container_ends`: of containers that were started again in place.

    Returns:
        Rows of `attempts`, and of `placements`.
    """
    held = _overlapping_gpu_pods(_held(executions(_of_gangs(pods), ends), workloads, lists, aliases))
    known = orders.select("cluster", "evicted_at", job="job_id", evicted_for="reason").drop_nulls("job")
    inferred = stopped_of(held, remembered.rename({"job_id": "job"})).select(known.columns)
    parts = _parts(held, pl.concat([known, inferred]).sort("evicted_at"))
    attempts = _attempts(parts, workloads)
    return attempts, _placements(parts, attempts)


def jobs_of(pods: pl.DataFrame) -> pl.DataFrame:
    """The job of the pods of an object: `cluster`, `root_uid` (the outermost object, or a pod), `job_id`."""
    named = pods.select("cluster", "root_uid", "uid", job_id=job_id())
    of_pods = named.select("cluster", "job_id", root_uid="uid")
    return pl.concat([named.select(of_pods.columns), of_pods]).unique(["cluster", "root_uid"], maintain_order=True)


def job_id() -> pl.Expr:
    """The id of a job by `namespace`, `root_kind`, `root_name` and `root_uid`, for a workflow with `slot`, the step."""
    steps = pl.when(pl.col("root_kind") == WORKFLOW).then(pl.col("slot"))
    uid = pl.col("root_uid").str.replace_all("-", "").str.head(8)
    return pl.concat_str("namespace", "root_name", steps, uid, separator=".", ignore_nulls=True).str.replace_all(
        "/", "_"
    )


def _of_gangs(pods: pl.DataFrame) -> pl.DataFrame:
    """Pods that are work, of workloads with at least one pod that holds GPUs, or may."""
    rows = pods.filter(pl.col("role") == WORK).with_columns(job=job_id())
    uses_gpus = (pl.col("n_gpus").fill_null(1) > 0).any().over(_JOB)
    return rows.filter(uses_gpus)


def _held(pods: pl.DataFrame, workloads: pl.DataFrame, lists: pl.DataFrame, aliases: pl.DataFrame) -> pl.DataFrame:
    """Pods with `held_from`, `held_until`, whether the end is guessed, and their nodes by Slurm's names."""
    ends = workloads.select("cluster", "ended_at", root_uid="uid").rename({"ended_at": "root_ended"})
    gone = (pl.col("listed_at") > pl.col("seen_at")) | (pl.col("root_ended") >= pl.col("seen_at"))
    rows = (
        with_last_list(pods, lists, "Pod", "listed_at")
        .join(ends, on=["cluster", "root_uid"], how="left")
        .join(
            aliases.rename({"node": "slurm_node"}),
            left_on=["cluster", "node"],
            right_on=["cluster", "name"],
            how="left",
        )
        .with_columns(over=pl.col("ended_at").is_null() & ~pl.col("state").is_in(["RUNNING", "PENDING"]))
        .with_columns(
            gone=gone.fill_null(value=False)
            & pl.col("ended_at").is_null()
            & pl.col("deleted_at").is_null()
            & ~pl.col("over")
        )
    )
    last_alive = pl.when("over").then(pl.max_horizontal("alive_at", "scheduled_at", "created_at"))
    with_its_gang = pl.when(pl.col("root_kind") != WORKFLOW).then("root_ended")
    unobserved = pl.when("gone").then(pl.coalesce(with_its_gang, "seen_at"))
    return rows.with_columns(
        node=pl.coalesce("slurm_node", "node"),
        held_from=pl.col("scheduled_at"),
        held_until=pl.coalesce("ended_at", last_alive, "deleted_at", unobserved),
        guessed=(pl.col("gone") & with_its_gang.is_null()) | pl.col("over"),
        state=pl.when(pl.col("state").is_in(["RUNNING", "PENDING"]) & ~_lasts())
        .then(pl.lit("CANCELLED"))
        .otherwise("state"),
    ).with_columns(
        held_until=pl.when(pl.col("held_until").is_not_null()).then(pl.max_horizontal("held_until", "held_from"))
    )


def _uses_gpus() -> pl.Expr:
    """Whether a pod holds GPUs, or may."""
    return pl.col("n_gpus").fill_null(1) > 0


def _overlapping_gpu_pods(held: pl.DataFrame) -> pl.DataFrame:
    """Pods that overlap a pod of their job with GPUs; others only prepare data or a model.

    A pod lived beside one with GPUs if more of those were made before its end than had ended by its beginning.
    """
    gpus = held.filter(_uses_gpus())
    number = pl.int_range(1, pl.len() + 1).over(_JOB)
    made = gpus.sort("created_at").select(*_JOB, "created_at", n_made=number)
    over = gpus.drop_nulls("held_until").sort("held_until").select(*_JOB, "held_until", n_over=number)
    others = held.filter(~_uses_gpus()).with_columns(until=pl.col("held_until").fill_null(FAR)).sort("until")
    counted = others.join_asof(
        made, left_on="until", right_on="created_at", by=list(_JOB), allow_exact_matches=False, check_sortedness=False
    ).sort("created_at")
    counted = counted.join_asof(
        over, left_on="created_at", right_on="held_until", by=list(_JOB), check_sortedness=False
    )
    companions = counted.filter(pl.col("n_made").fill_null(0) > pl.col("n_over").fill_null(0))
    return pl.concat(
        [gpus, held.join(companions, on=["cluster", "uid", "created_at"], how="semi").filter(~_uses_gpus())]
    )


def _gangs(workloads: pl.DataFrame) -> pl.DataFrame:
    """Workloads whose beginning, end and outcome are those of their pods: a workflow's are of no step of it."""
    return workloads.filter(pl.col("kind") != WORKFLOW)


def _lasts() -> pl.Expr:
    """Whether a pod without an end is still there."""
    return pl.col("ended_at").is_null() & pl.col("deleted_at").is_null() & ~pl.col("gone")


def _parts(held: pl.DataFrame, orders: pl.DataFrame) -> pl.DataFrame:
    """Pods by attempt, with `begins` and `ends` of each part: pods that live across a restart are in several.

    An eviction ends an attempt, too, whether or not the pods that come after it take the place of earlier ones.
    """
    slot = pl.coalesce("slot", pl.when(_never_overlap()).then(pl.lit("")).otherwise("name"))
    rows = with_taken_places(held.with_columns(slot=slot, placeless=_placeless() & (slot != "")), failures=ENDED_BY)
    rows = rows.sort(*_JOB, "slot", "restart_attempt", "created_at", "uid")
    rows = rows.with_columns(ordinal=pl.int_range(1, pl.len() + 1).over(*_JOB, "slot"))
    spans = _spans(_since_evictions(rows, orders), orders)
    created_in = (pl.col("created_at") >= pl.col("since")) & (pl.col("created_at") < pl.col("until"))
    own = rows.join(spans, on=_JOB).filter(created_in).select("cluster", "uid", own="attempt")
    replaced = pl.col("own").shift(-1).over(*_JOB, "slot", order_by="ordinal")
    pods = rows.join(own, on=["cluster", "uid"]).with_columns(replaced=replaced)
    is_own = pl.col("attempt") == pl.col("own")
    lives_on = (pl.col("held_until") > pl.col("since")).fill_null(value=True) & pl.col("held_from").is_not_null()
    is_last = (pl.col("until") == FAR) | (pl.col("attempt") == pl.col("replaced") - 1).fill_null(value=False)
    return (
        pods.join(spans, on=_JOB)
        .filter(is_own | ((pl.col("attempt") > pl.col("own")) & lives_on))
        .filter((pl.col("attempt") < pl.col("replaced")).fill_null(value=True) | is_own)
        .with_columns(
            begins=pl.when(is_own).then("held_from").otherwise(pl.max_horizontal("held_from", "since")),
            ends=pl.when(is_last).then("held_until").otherwise(pl.min_horizontal("held_until", "until")),
            survives=~is_last & (pl.col("held_until") > pl.col("until")).fill_null(value=True),
        )
        .filter((pl.col("begins") <= pl.col("ends")).fill_null(value=True))
    )


def _placeless() -> pl.Expr:
    """Whether no object records the place of a pod in its gang: its slot is its name, or an order."""
    named = pl.col("slot").is_null() & ~pl.col("root_kind").is_in(sorted(MACHINES))
    in_group = (pl.col("root_kind") == POD_GROUP) & (pl.col("slot") == pl.col("name"))
    return named | in_group | pl.col("root_kind").is_in(RAY)


def _never_overlap() -> pl.Expr:
    """Whether no two pods of a job ran at the same time: then each replaces the one before."""
    before = pl.col("held_until").fill_null(FAR).shift(1).cum_max().over(_JOB, order_by="created_at")
    return (pl.col("created_at") >= before).fill_null(value=True).all().over(_JOB)


def _since_evictions(rows: pl.DataFrame, orders: pl.DataFrame) -> pl.DataFrame:
    """Pods with `round`: number of evictions of their job before their creation."""
    rounds = orders.select("cluster", "job", "evicted_at", round=pl.int_range(1, pl.len() + 1).over(_JOB))
    joined = rows.sort("created_at").join_asof(
        rounds, left_on="created_at", right_on="evicted_at", by=list(_JOB), check_sortedness=False
    )
    return joined.with_columns(pl.col("round").fill_null(0)).drop("evicted_at")


def _spans(rows: pl.DataFrame, orders: pl.DataFrame) -> pl.DataFrame:
    """The attempts of jobs: `attempt` from 1, begun at `since` and succeeded at `until`, and `submitted_at`.

    Pods that are replaced together are one restart, however often each of them was replaced before; a place in the gang
    that is taken twice is two.

    An attempt after an eviction was submitted by it: the job waits from then on. `evicted_for` is the reason.
    """
    first_of_round = (pl.col("round") > 0) & (pl.col("created_at") == pl.col("created_at").min().over(*_JOB, "round"))
    first_of_round &= pl.col("round") > pl.col("round").min().over(_JOB)
    failed = pl.when(pl.col("state").is_in(ENDED_BY)).then("held_until")
    rows = rows.with_columns(broken=failed.shift(1).over(*_JOB, "slot", order_by="ordinal"))
    later = rows.filter((pl.col("ordinal") > 1) | first_of_round).sort(*_JOB, "created_at", "ordinal")
    gap_s = (pl.col("created_at") - pl.col("created_at").shift(1)).dt.total_microseconds() / 1e6
    evicted = pl.col("round") > pl.col("round").cum_max().shift(1)
    apart = (gap_s > TOGETHER_S).fill_null(value=True) | evicted.fill_null(value=True)
    together = later.with_columns(together=apart.cast(pl.Int64).cum_sum().over(_JOB))
    times = pl.int_range(1, pl.len() + 1).over(*_JOB, "together", "slot", order_by=["created_at", "ordinal"])
    again = (pl.col("times") > pl.col("times").cum_max().shift(1)).fill_null(value=True)
    counted = together.with_columns(times=times).with_columns(begins=again.over(*_JOB, "together"))
    restarts = (
        counted.with_columns(attempt=pl.col("begins").cast(pl.Int64).cum_sum().over(_JOB) + 1)
        .group_by(_ATTEMPT)
        .agg(since=pl.col("created_at").min(), broken=pl.col("broken").max(), last_made=pl.col("created_at").max())
    )
    restarts = _broken_before(restarts, rows)
    first = rows.group_by(_JOB).agg(attempt=pl.lit(1, dtype=pl.Int64), since=pl.col("created_at").min())
    every = pl.concat([first.select(restarts.columns), restarts]).sort(_ATTEMPT)
    until = pl.col("since").shift(-1).over(_JOB, order_by="attempt").fill_null(FAR)
    spans = _with_orders(every.with_columns(until=until), orders)
    repeated = pl.int_range(pl.len()).over(*_JOB, "submitted_at")
    return spans.with_columns(submitted_at=pl.col("submitted_at") + pl.duration(microseconds=repeated))


def _broken_before(restarts: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Restarts dated back to the last failure of the replaced pods where pods with GPUs live on: they do not train."""
    next_made = pl.col("created_at").shift(-1).over(*_JOB, "slot", order_by="ordinal")
    pods = rows.filter(_uses_gpus()).select(*_JOB, "created_at", "held_from", "held_until", next_made=next_made)
    alive = (pl.col("held_from") < pl.col("broken")) & (pl.col("held_until") > pl.col("since")).fill_null(value=True)
    stays = (pl.col("next_made") > pl.col("last_made")).fill_null(value=True)
    across = restarts.join(pods, on=_JOB).filter(alive & stays & (pl.col("broken") < pl.col("since")))
    begun = restarts.join(across.select(_ATTEMPT).unique(), on=_ATTEMPT, how="semi").select(*_ATTEMPT, failed="broken")
    before = pl.col("since").shift(1).over(_JOB, order_by="attempt")
    in_order = (pl.col("failed") > before).fill_null(value=True)
    since = pl.coalesce(pl.when(in_order).then("failed"), "since")
    return restarts.join(begun, on=_ATTEMPT, how="left").select(*_ATTEMPT, since=since)


def _with_orders(spans: pl.DataFrame, orders: pl.DataFrame) -> pl.DataFrame:
    """Attempts with `submitted_at`, and the first eviction of each: `evicted_at`, `evicted_for`."""
    ended = (
        spans.select(*_ATTEMPT, "since")
        .sort("since")
        .join_asof(
            orders, left_on="since", right_on="evicted_at", by=list(_JOB), strategy="forward", check_sortedness=False
        )
    )
    rows = spans.join(ended.drop("since"), on=_ATTEMPT, how="left")
    own = pl.col("evicted_at") < pl.col("until")
    rows = rows.with_columns(pl.when(own).then("evicted_at"), pl.when(own).then("evicted_for")).sort(_ATTEMPT)
    before = pl.col("evicted_at").shift(1).over(_JOB, order_by="attempt")
    return rows.with_columns(submitted_at=pl.coalesce(before, "since"))


def _attempts(parts: pl.DataFrame, workloads: pl.DataFrame) -> pl.DataFrame:
    """Rows of `attempts`."""
    key = ["cluster", "root_uid"]
    roots = workloads.select("cluster", root_uid="uid", root_queue="queue", root_user="user")
    lives = _gangs(workloads).select(
        "cluster", root_uid="uid", root_created="created_at", root_state="state", root_reason="reason"
    )
    gpus = most_at_once(parts.filter(pl.col("begins").is_not_null()), _ATTEMPT, "begins").rename({"gpus": "n_gpus"})
    requested = most_at_once(parts, _ATTEMPT, "created_at").rename({"gpus": "req_gpus"})
    sized = _summed(parts).join(gpus, on=_ATTEMPT, how="left").join(requested, on=_ATTEMPT, how="left")
    summed = sized.join(roots, on=key, how="left").join(lives, on=key, how="left").sort(_ATTEMPT)
    begun = pl.when(pl.col("attempt") == 1).then(pl.min_horizontal("root_created", "submitted_at"))
    return as_attempts(
        summed.with_columns(
            state=_state(),
            was_evicted=_was_evicted(),
            submitted_at=pl.coalesce(begun, "submitted_at"),
            ended_at=pl.when(~pl.col("lasts")).then(pl.coalesce("last_end", "submitted_at")),
            n_gpus=pl.when(pl.col("started_at").is_null()).then(pl.lit(0)).otherwise("n_gpus"),
        )
    )


def _summed(parts: pl.DataFrame) -> pl.DataFrame:
    """One row per attempt: its pods combined, and the outcome of the pod that explains its end best."""
    rank = pl.col("state").replace_strict({name: place for place, name in enumerate(ENDED_BY)}, default=None)
    failed = rank.is_not_null() & ~pl.col("survives")
    rows = parts.with_columns(rank=pl.when(failed).then(rank))
    worst, held = pl.col("rank").is_not_null(), pl.col("begins").is_not_null() & _uses_gpus()
    ordered = rows.sort(*_ATTEMPT, "rank", "held_until", "uid", nulls_last=True)
    return ordered.group_by(_ATTEMPT, maintain_order=True).agg(
        pl.col("root_uid", "root_kind", "root_name", "namespace", "submitted_at").first(),
        pl.col("evicted_at", "evicted_for").first(),
        worst=pl.col("state").filter(worst).first(),
        failed_node=pl.col("node").filter(worst).first(),
        exit_code=pl.col("exit_code").filter(worst).first(),
        why=pl.col("reason").filter(worst).first(),
        first_failed=pl.col("held_until").filter(worst).min(),
        started_at=pl.col("begins").filter(held).min(),
        lasts=pl.col("ends").is_null().any(),
        running=(pl.col("ends").is_null() & pl.col("begins").is_not_null()).any() & held.any(),
        last_end=pl.col("ends").max(),
        all_completed=(pl.col("state") == "COMPLETED").all(),
        guessed=pl.col("guessed").any(),
        n_nodes=pl.col("node").filter(held).n_unique().cast(pl.Int64),
        queue=pl.col("queue").drop_nulls().first(),
        user=pl.col("user").drop_nulls().first(),
        restarts=pl.col("restarts").max(),
        nodes=pl.col("node").filter(held).unique().sort(),
    )


def _state() -> pl.Expr:
    """The state of an attempt: by its pods; that of the last attempt by its workload's status."""
    is_last = pl.col("attempt") == pl.col("attempt").max().over(_JOB)
    evicted = pl.when(_was_evicted()).then(
        pl.col("evicted_for").replace_strict(OF_EVICTION, default="CANCELLED", return_dtype=pl.String)
    )
    of_root = pl.when(is_last & pl.col("root_state").is_in(["COMPLETED", "FAILED", "TIMEOUT"])).then("root_state")
    return (
        pl.when("running")
        .then(pl.lit("RUNNING"))
        .when("lasts")
        .then(pl.lit("PENDING"))
        .when(of_root == "COMPLETED")
        .then(of_root)
        .otherwise(
            pl.coalesce(
                evicted,
                "worst",
                of_root,
                pl.when("all_completed").then(pl.lit("COMPLETED")),
                pl.lit("CANCELLED"),
            )
        )
    )


def _was_evicted() -> pl.Expr:
    """Whether an eviction ended an attempt: its pods held on until then, and none had failed before."""
    failed_before = (pl.col("first_failed") < pl.col("evicted_at")).fill_null(value=False)
    return (pl.col("last_end") >= pl.col("evicted_at")).fill_null(value=False) & ~failed_before


def _scheduler() -> pl.Expr:
    """The scheduler of an attempt, by the kind of its outermost object."""
    kind = pl.col("root_kind")
    return (
        pl.when(kind.is_in(sorted(KUBEFLOW)))
        .then(pl.lit("kubeflow"))
        .when(kind == WORKFLOW)
        .then(pl.lit("argo"))
        .when(kind.is_in(sorted(MACHINES)))
        .then(pl.lit("vm"))
        .otherwise(pl.lit("kubernetes"))
    )


def as_attempts(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `attempts`, from the results of `_summed` and `_attempts`."""
    ended = pl.col("ended_at")
    known = {
        "scheduler": _scheduler(),
        "job_id": pl.col("job"),
        "display_id": pl.concat_str("namespace", "root_name", separator="/"),
        "eligible_at": pl.col("submitted_at"),
        "end_guessed": pl.when(pl.col("guessed") & ended.is_not_null()).then(pl.lit(value=True)),
        "reason": pl.coalesce(pl.when("was_evicted").then("evicted_for"), "why", "root_reason"),
        "user": pl.coalesce("root_user", "user"),
        "account": pl.col("namespace"),
        "partition": pl.coalesce("root_queue", "queue"),
        "name": pl.col("root_name"),
        "elapsed_s": (ended - pl.col("started_at")).dt.total_microseconds() / 1e6,
        "req_nodes": pl.lit(None, dtype=pl.Int64),
        "failed_node": pl.when(pl.col("state") == "NODE_FAIL").then("failed_node"),
        "node_list": pl.when(pl.col("n_nodes") > 0).then(pl.col("nodes").list.join(",")),
        "exit_code": pl.when(ended.is_not_null()).then("exit_code"),
    }
    known_columns = rows.with_columns(**known)
    missing = [
        pl.lit(None, dtype=kind).alias(name) for name, kind in ATTEMPTS.items() if name not in known_columns.columns
    ]
    return known_columns.with_columns(missing).select(pl.col(name).cast(kind) for name, kind in ATTEMPTS.items())


def _placements(parts: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """Rows of `placements`: an attempt on a node, for each period with the same number of GPUs."""
    number = pl.col("attempt").rank("dense").over(_JOB)  # an attempt that ended before it began has no row
    numbered = parts.with_columns(attempt=number.cast(pl.Int64))
    on_nodes = numbered.filter(pl.col("begins").is_not_null() & pl.col("node").is_not_null() & _uses_gpus())
    keys = attempts.sort("cluster", "job_id", "submitted_at").select(
        "cluster",
        "scheduler",
        "job_id",
        "submitted_at",
        job="job_id",
        attempt=pl.int_range(1, pl.len() + 1).over("cluster", "job_id"),
    )
    joined = held_at_once(on_nodes, [*_ATTEMPT, "node"]).join(keys, on=_ATTEMPT)
    return joined.select(pl.col(name).cast(kind) for name, kind in PLACEMENTS.items()).sort(pl.all())
