"""Requests checked against the warehouse: the subject of a correction must exist and be unique."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from app.adjudicate.requests import CauseRequest, NodeStateRequest
from app.clusters import clusters, select_cluster
from app.corrections import records
from app.corrections.describe import name_values, shortened
from app.corrections.records import Correction, key_of, stamp
from app.errors import UsageError
from app.results.runs.runs import resolve_run
from app.times import iso, parse_time
from app.window import Window

if TYPE_CHECKING:
    from app.adjudicate.requests import RunJoinRequest, WhichAttempts
    from app.corrections.records import Kind
    from app.window import RowSource

_CAUSE = re.compile(r"[a-z][a-z0-9_]{0,39}")
_EVER = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))


def _cause(source: RowSource, request: CauseRequest) -> Correction:
    """The class, cause or node of one interruption."""
    cluster = _select_cluster(source, request.cluster, request.run or request.which.job)
    row = _interruption_row(source, cluster, request)
    before = {"class": row["class"], "cause": row["cause"], "node": row["node"]}
    requested = {"class": request.kind, "cause": request.cause, "node": request.node}
    after = {name: value for name, value in requested.items() if value is not None}
    if not after:
        raise UsageError("the correction is missing: --class, --cause or --node (one of them, or several)")
    if request.cause is not None and not _CAUSE.fullmatch(request.cause):
        raise UsageError(
            "--cause is a word of at most 40 lower-case letters, digits and _, such as nvlink or node_fail"
        )
    if request.kind not in {None, row["class"]} and request.cause is None:
        raise UsageError(f"class {request.kind} needs a new cause, too (it is {row['cause']!r}): add --cause")
    if request.node is not None:
        held = _nodes(source, cluster, row["run_id"], row["attempt_no"])
        if request.node not in held:
            raise UsageError(f"the attempt did not hold the node {request.node!r}; it held {shortened(held)}")
    if all(before[name] == value for name, value in after.items()) and not _is_corrected(source, cluster, row):
        raise UsageError(f"the interruption already has {name_values(before)}; nothing to correct")
    return _unsigned(cluster, "cause", {"attempts": row["keys"]}, before, after)


def _is_corrected(source: RowSource, cluster: str, row: dict[str, Any]) -> bool:
    """Whether a correction made it so: to repeat a correction is idempotent, not a mistake."""
    return any(
        each.counts and each.kind == "cause" and key in each.subject["attempts"]
        for each in records.read_corrections(source, cluster)
        for key in row["keys"]
    )


def _interruption_row(source: RowSource, cluster: str, request: CauseRequest) -> dict[str, Any]:
    """The requested interruption, with the keys of the attempts that it ended (`keys`)."""
    run = None if request.run is None else _select_run(source, cluster, request.run)
    attempts = _attempts(source, cluster, request.which, run)
    which = attempts.select("run_id", "attempt_no").unique(maintain_order=True)
    interrupted = source.query("interruptions", cluster=cluster, since=_EVER[0], until=_EVER[1])
    matching = interrupted.join(which, on=["run_id", "attempt_no"], how="semi").sort("run_id", "attempt_no")
    if matching.is_empty():
        ends = [f"attempt {row['attempt_no']} of {row['run_id']} ({row['state']})" for row in attempts.to_dicts()]
        raise UsageError(f"no interruption to correct: {shortened(ends)}")
    if matching.height > 1:
        several = [f"attempt {r['attempt_no']} of {r['run_id']} at {iso(r['ended_at'])}" for r in matching.to_dicts()]
        raise UsageError(
            f"{matching.height} interruptions match: {shortened(several)}. Select one: --run R --attempt N"
        )
    row = matching.row(0, named=True)
    whole = source.query("adjudication_attempts", cluster=cluster, job=None, run=row["run_id"])
    keys = [key_of(each) for each in whole.filter(pl.col("attempt_no") == row["attempt_no"]).to_dicts()]
    return row | {"keys": keys}


def _attempts(source: RowSource, cluster: str, which: WhichAttempts, run: str | None) -> pl.DataFrame:
    """Attempts of a run (its run id; None: of any) that --job, --attempt and --submitted select."""
    if run is None and which.job is None:
        raise UsageError("the attempt is missing: --job J, or --run R --attempt N")
    attempts = source.query("adjudication_attempts", cluster=cluster, job=which.job, run=run)
    if attempts.is_empty():
        of = f" in {run}" if run is not None else ""
        raise UsageError(f"{cluster} has no attempt of job {which.job!r}{of}")
    if which.attempt is not None:
        left = attempts.filter(pl.col("attempt_no") == which.attempt)
        if left.is_empty():
            raise UsageError(
                f"there is no attempt {which.attempt}; attempts: {shortened(attempts['attempt_no'].unique())}"
            )
        attempts = left
    if which.submitted is not None:
        moment = parse_time(which.submitted)
        left = attempts.filter(pl.col("submitted_at").dt.truncate("1s") == moment.replace(microsecond=0))
        if left.is_empty():
            when = [iso(each) for each in attempts["submitted_at"].unique().sort()]
            raise UsageError(f"no such attempt was submitted at {iso(moment)}; times of submission: {shortened(when)}")
        attempts = left
    return attempts


def _select_run(source: RowSource, cluster: str, text: str) -> str:
    runs = resolve_run(source, cluster, text)
    if not runs:
        raise UsageError(f"{cluster} has no run {text!r}; for the list: trackside show runs")
    if len(runs) > 1:
        raise UsageError(f"{text!r} matches {len(runs)} runs: {shortened(runs)}; use a run id")
    return runs[0]


def _node_state(source: RowSource, request: NodeStateRequest) -> Correction:
    """The state of a node in an interval."""
    cluster = _select_cluster(source, request.cluster)
    window = computed_window(source, cluster)
    names = _nodes(source, cluster, None, None)
    if request.node not in names:
        raise UsageError(f"{cluster} has no node {request.node!r}; nodes: {shortened(names)}")
    since, until = parse_time(request.since), parse_time(request.until)
    if since >= until:
        raise UsageError(f"--from {iso(since)} is not before --until {iso(until)}")
    if until <= window.since or since >= window.until:
        reach = f"{iso(window.since)} to {iso(window.until)}"
        raise UsageError(f"{cluster} has no data from {iso(since)} to {iso(until)}; the data cover {reach}")
    states = source.query("node_states", cluster=cluster).filter(
        (pl.col("node") == request.node)
        & (pl.col("started_at") < until)
        & (pl.col("ended_at").is_null() | (pl.col("ended_at") > since))
    )
    overruled = [
        {"state": row["state"], "from": stamp(row["started_at"]), "until": row["ended_at"] and stamp(row["ended_at"]),
         "reason": row["reason"], "planned": row["planned"]}
        for row in states.to_dicts()
    ]  # fmt: skip
    subject = {"node": request.node, "from": stamp(since), "until": stamp(until)}
    return _unsigned(cluster, "node_state", subject, {"states": overruled}, {"state": request.state})


def _run_join(source: RowSource, request: RunJoinRequest) -> Correction:
    """The run that a job's attempts (or one of them) belong to."""
    cluster = _select_cluster(source, request.cluster, request.run)
    run = _select_run(source, cluster, request.run)
    mine = _attempts(source, cluster, request.which, run if request.apart and request.which.job is None else None)
    moved = mine.filter((pl.col("run_id") == run) if request.apart else (pl.col("run_id") != run))
    if moved.is_empty():
        return _existing(source, cluster, mine, request)
    if moved["run_id"].n_unique() > 1:
        several = shortened(moved["run_id"].unique().sort())
        raise UsageError(f"job {request.which.job!r} is in several runs: {several}; select one with --submitted TIME")
    every = source.query("adjudication_attempts", cluster=cluster, job=None, run=run)
    if request.apart and every["attempt_no"].n_unique() == moved["attempt_no"].n_unique():
        raise UsageError(f"{run} has no other attempts: there is nothing to separate")
    if not request.apart:
        _require_sequence(every, moved, run)
    after: dict[str, Any] = {"apart": True} if request.apart else {"run_of": _anchor(source, cluster, every)}
    subject = {"attempts": [key_of(row) for row in moved.to_dicts()], "whole_job": request.which.attempt is None}
    return _unsigned(cluster, "run_join", subject, {"run": moved["run_id"][0]}, after)


def _require_sequence(every: pl.DataFrame, moved: pl.DataFrame, run: str) -> None:
    """Refuse to join attempts that ran at the same time: a restart would take negative time.

    Raises:
        UsageError: an attempt of the run overlaps one that is to join it.
    """
    far = pl.lit(_LAST, dtype=pl.Datetime("us", "UTC"))
    ran = [
        each.filter(pl.col("started_at").is_not_null()).select(
            "attempt_no", "job_id", pl.col("started_at").alias("begin"), pl.coalesce("ended_at", far).alias("end")
        )
        for each in (every, moved)
    ]
    pairs = ran[0].join(ran[1], how="cross", suffix="_moved")
    overlapping = pairs.filter((pl.col("begin") < pl.col("end_moved")) & (pl.col("begin_moved") < pl.col("end")))
    if overlapping.height:
        row = overlapping.sort("begin", "begin_moved").row(0, named=True)
        raise UsageError(
            f"attempt {row['attempt_no']} of {run} (job {row['job_id']}, from {iso(row['begin'])}) and job "
            f"{row['job_id_moved']} (from {iso(row['begin_moved'])}) ran at the same time; attempts of one run follow "
            "one another. Select the attempts that belong to the run: --attempt N"
        )


_LAST = datetime(9999, 1, 1, tzinfo=UTC)
"""Later than any end."""


def _existing(source: RowSource, cluster: str, mine: pl.DataFrame, request: RunJoinRequest) -> Correction:
    """The existing correction that put attempts where they are.

    Raises:
        UsageError: no correction did.
    """
    keys = [key_of(row) for row in mine.to_dicts()]
    for each in reversed(records.read_corrections(source, cluster)):
        same = each.kind == "run_join" and each.subject["attempts"] == keys
        if each.counts and same and ("apart" in each.after) == request.apart:
            return each
    runs = shortened(mine["run_id"].unique().sort())
    membership = f"not in {request.run}, but in {runs}" if request.apart else f"already in {runs}"
    raise UsageError(f"job {mine['job_id'][0]} is {membership}; nothing to correct")


def _anchor(source: RowSource, cluster: str, every: pl.DataFrame) -> list[str]:
    """The first of a run's attempts that no correction joined to it: joined attempts follow that one."""
    moved = {
        key for each in records.read_corrections(source, cluster)
        if each.counts and each.kind == "run_join" for key in each.attempts
    }  # fmt: skip
    rows = every.to_dicts()
    own = [r for r in rows if (r["scheduler"], r["job_id"], r["submitted_at"]) not in moved]
    return key_of((own or rows)[0])


def resolve(source: RowSource, request: CauseRequest | NodeStateRequest | RunJoinRequest) -> Correction:
    """The correction of a request, without id, author and reason.

    Raises:
        UsageError: the subject does not exist or is not unique, or nothing would change.
    """
    if isinstance(request, CauseRequest):
        return _cause(source, request)
    if isinstance(request, NodeStateRequest):
        return _node_state(source, request)
    return _run_join(source, request)


def _unsigned(
    cluster: str, kind: Kind, subject: dict[str, Any], before: dict[str, Any], after: dict[str, Any]
) -> Correction:
    """A correction without author and reason."""
    return Correction("", cluster, _EVER[0], "", "", kind, subject, before, after)


def _select_cluster(source: RowSource, requested: str | None, run: str | None = None) -> str:
    """The cluster that a correction is about: the one requested, the only one, or the only one that has the run or job.

    Raises:
        UsageError: there is none, or it may be several.
    """
    names = clusters(source)
    if requested is None and run is not None:
        names = [name for name in names if resolve_run(source, name, run)] or names
    cluster = select_cluster("a correction", names, requested)
    computed_window(source, cluster)
    return cluster


def computed_window(source: RowSource, cluster: str) -> Window:
    """The time that a cluster's computation covers.

    Raises:
        UsageError: nothing has been computed for it.
    """
    computed = source.query("computed", cluster=cluster)
    if computed.is_empty():
        raise UsageError(f"{cluster}: nothing has been computed yet. Run: trackside compute")
    return Window(cluster, computed["since"].item(), computed["until"].item())


def _nodes(source: RowSource, cluster: str, run: str | None, attempt: int | None) -> list[str]:
    rows = source.query("adjudication_nodes", cluster=cluster, run=run, attempt=attempt)
    return [str(node) for node in rows["node"]]
