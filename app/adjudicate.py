"""`trackside adjudicate`: a person corrects a cause, a node state or a run join, or withdraws a correction.

The subject of a correction must exist and be unique; author and reason are never guessed. The verb prints the effect:
the verdicts that changed, and the GPU-time that changed its category.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from app import console
from app.claims import verify as verify_claims
from app.claims.file import read_claims
from app.claims.stored import StoredClaims
from app.clusters import clusters, select_cluster
from app.compute import pipeline
from app.compute.unchanged import inputs_digest
from app.corrections import records
from app.corrections.describe import describe, name_values, shortened
from app.corrections.records import Correction, key_of, stamp
from app.errors import UsageError
from app.formatting import CANNOT_TELL, NOTHING
from app.results.goodput import lost_rows
from app.results.runs.runs import resolve_run
from app.times import iso, parse_time
from app.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from app.config.settings import Config
    from app.corrections.records import Kind
    from app.window import Source
    from metrics.claims.verdict import Claim, Judged
    from queries.warehouse import Writer

LONGEST_NAME, LONGEST_REASON = 100, 1000
"""Letters of an author's name and of a reason."""

_CAUSE = re.compile(r"[a-z][a-z0-9_]{0,39}")
_EVER = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))


@dataclass(frozen=True)
class Signature:
    """Who makes a correction, and why; both are required, and None where they are missing."""

    author: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class WhichAttempts:
    """Which attempts a correction is about; None leaves a restriction out.

    Attributes:
        job: a raw job id, or as Slurm displays it.
        attempt: the number of the attempt in its run.
        submitted: a time as typed.
    """

    job: str | None = None
    attempt: int | None = None
    submitted: str | None = None


@dataclass(frozen=True)
class CauseRequest:
    """The class, cause or node of one interruption; None leaves it as it is."""

    cluster: str | None = None
    run: str | None = None
    which: WhichAttempts = WhichAttempts()
    kind: str | None = None
    cause: str | None = None
    node: str | None = None


@dataclass(frozen=True)
class NodeStateRequest:
    """The state of a node in an interval; times are as typed."""

    node: str
    since: str
    until: str
    state: str
    cluster: str | None = None


@dataclass(frozen=True)
class RunJoinRequest:
    """Attempts that are part of a run, or with `apart` are not."""

    run: str
    which: WhichAttempts = WhichAttempts()
    apart: bool = False
    cluster: str | None = None


@dataclass(frozen=True)
class WithdrawRequest:
    """The correction to withdraw."""

    id: str


@dataclass(frozen=True)
class Done:
    """The result of a correction.

    Attributes:
        correction: as it is stored.
        message: what was done, in a sentence.
        changed: whether anything was written.
        effect: the differences; None where nothing was computed.
    """

    correction: Correction
    message: str
    changed: bool
    effect: tuple[str, ...] | None = None


def adjudicate(
    writer: Writer,
    settings: Config,
    request: CauseRequest | NodeStateRequest | RunJoinRequest | WithdrawRequest,
    signature: Signature,
    *,
    now: datetime,
    compute: bool = True,
    claims_path: Path | None = None,
    progress: Callable[[str], None],
) -> Done:
    """Store a correction, compute, and compare the numbers.

    Args:
        writer: the warehouse.
        settings: with the rules and claims to compute by.
        request: the correction, or the one to withdraw.
        signature: who makes it, and why.
        now: when it is made.
        compute: whether to compute with it now; otherwise the next computation applies it.
        claims_path: claims whose verdicts are compared; None: those of the configuration.
        progress: receives what is being done.

    Raises:
        UsageError: the subject does not exist or is not unique, nothing would change, or author or reason is missing.
    """
    author, reason = _signed(signature)
    if isinstance(request, WithdrawRequest):
        done = _withdrawn(writer, request.id, author, reason, now)
    else:
        done = _made(writer, replace(_requested(writer, request), made_at=now, author=author, reason=reason))
    if not done.changed:
        return _caught_up(writer, settings, done, now=now, progress=progress) if compute else done
    claims = read_claims(claims_path or settings.claims) if compute else []
    cluster = done.correction.cluster
    if not compute:
        with writer.transaction():
            _write(writer, done.correction)
        return done
    progress("the numbers before")
    before = _state(writer, cluster, claims)
    with writer.transaction():
        _write(writer, done.correction)
    _compute(writer, settings, now=now, progress=progress)
    progress("the numbers after")
    return replace(done, effect=tuple(_differences(before, _state(writer, cluster, claims))))


def _caught_up(writer: Writer, settings: Config, done: Done, *, now: datetime, progress: Callable[[str], None]) -> Done:
    """The result of a correction that exists already; computed now if a computation has not applied it yet."""
    changed_at = done.correction.withdrawn_at or done.correction.made_at
    computed = writer.query("computed", cluster=done.correction.cluster)
    if computed.is_empty() or computed["computed_at"].item() >= changed_at:
        return done
    _compute(writer, settings, now=now, progress=progress)
    return replace(done, message=f"{done.message}; the numbers lacked it and are computed anew")


def _compute(writer: Writer, settings: Config, *, now: datetime, progress: Callable[[str], None]) -> None:
    stored = StoredClaims.read(settings.claims)
    inputs = None if stored.error else inputs_digest(settings, since=None, until=None)
    pipeline.compute(writer, settings, now=now, inputs=inputs, verdicts=stored.verdicts, progress=progress)


def print_changes(done: Done, *, quiet: bool) -> None:
    """Print what was done, and its effect."""
    console.echo(done.message)
    for line in done.effect or ():
        console.echo(f"  {line}")
    if done.effect == ():
        console.echo("  it changes no verdict, no GPU-time and no interruption")
    if done.changed and done.effect is None and not quiet:
        console.echo("Next: trackside compute", error=True)


def _write(writer: Writer, correction: Correction) -> None:
    if correction.counts:
        writer.append("adjudications", pl.DataFrame([correction.row()], infer_schema_length=None))
        return
    writer.run(
        "withdraw_adjudication",
        id=correction.id,
        at=correction.withdrawn_at,
        author=correction.withdrawn_by,
        reason=correction.withdrawn_reason,
    )


def _signed(signature: Signature) -> tuple[str, str]:
    """Author and reason.

    Raises:
        UsageError: one of them is missing, too long, or holds what cannot be printed.
    """
    signed = []
    user = os.environ.get("USER", "")
    hint = f" (you may be {user})" if user.isprintable() and user else ""
    for name, text, longest, meaning in (
        ("--author", signature.author, LONGEST_NAME, f"who makes the correction{hint}"),
        ("--reason", signature.reason, LONGEST_REASON, "why"),
    ):
        value = (text or "").strip()
        if not value:
            raise UsageError(f"{name} is missing: {meaning}; a correction is stored with its author and reason")
        if len(value) > longest or not value.isprintable():
            raise UsageError(f"{name}: at most {longest} characters in one line, without control characters")
        signed.append(value)
    return signed[0], signed[1]


def _made(source: Source, made: Correction) -> Done:
    """The correction with its id, unless it exists already."""
    counting = [each for each in records.read_corrections(source, made.cluster) if each.counts]
    same = [each for each in counting if each.repeats(made)]
    if same and not any(each.overlaps(made) for each in counting[counting.index(same[-1]) + 1 :]):
        first = same[-1]
        message = f"{first.id} is the same correction (by {first.author} at {iso(first.made_at)}); nothing was changed"
        return Done(first, message, changed=False)
    named = "\0".join([made.cluster, made.kind, str(made.subject), str(made.after), stamp(made.made_at)])
    with_id = replace(made, id=f"adj-{hashlib.sha256(named.encode()).hexdigest()[:10]}")
    others = [each.id for each in counting if each.overlaps(made)]
    over = f"; it replaces {', '.join(others)} where both are about the same thing" if others else ""
    return Done(with_id, f"{with_id.id}: {describe(with_id)}{over}", changed=True)


def _withdrawn(source: Source, id_: str, author: str, reason: str, now: datetime) -> Done:
    corrections = records.read_corrections(source)
    correction = next((each for each in corrections if each.id == id_), None)
    if correction is None:
        counting = [each.id for each in corrections if each.counts]
        raise UsageError(f"there is no correction {id_!r}; in force: {shortened(counting)}")
    if not correction.counts:
        message = f"{correction.id} is already withdrawn, by {correction.withdrawn_by}; nothing was changed"
        return Done(correction, message, changed=False)
    taken = replace(correction, withdrawn_at=now, withdrawn_by=author, withdrawn_reason=reason)
    return Done(taken, f"{correction.id} is withdrawn: {describe(correction)}", changed=True)


# What is corrected -----------------------------------------------------------------------------------------------


def _cause(source: Source, request: CauseRequest) -> Correction:
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
    if all(before[name] == value for name, value in after.items()) and not _corrected(source, cluster, row):
        raise UsageError(f"the interruption already has {name_values(before)}; nothing to correct")
    return _correction(cluster, "cause", {"attempts": row["keys"]}, before, after)


def _corrected(source: Source, cluster: str, row: dict[str, Any]) -> bool:
    """Whether a correction made it so: to repeat a correction is idempotent, not a mistake."""
    return any(
        each.counts and each.kind == "cause" and key in each.subject["attempts"]
        for each in records.read_corrections(source, cluster)
        for key in row["keys"]
    )


def _interruption_row(source: Source, cluster: str, request: CauseRequest) -> dict[str, Any]:
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


def _attempts(source: Source, cluster: str, which: WhichAttempts, run: str | None) -> pl.DataFrame:
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


def _select_run(source: Source, cluster: str, text: str) -> str:
    runs = resolve_run(source, cluster, text)
    if not runs:
        raise UsageError(f"{cluster} has no run {text!r}; for the list: trackside show runs")
    if len(runs) > 1:
        raise UsageError(f"{text!r} matches {len(runs)} runs: {shortened(runs)}; use a run id")
    return runs[0]


def _node_state(source: Source, request: NodeStateRequest) -> Correction:
    """The state of a node in an interval."""
    cluster = _select_cluster(source, request.cluster)
    window = _window(source, cluster)
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
    return _correction(cluster, "node_state", subject, {"states": overruled}, {"state": request.state})


def _run_join(source: Source, request: RunJoinRequest) -> Correction:
    """Which run a job's attempts (or one of them) belong to."""
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
    return _correction(cluster, "run_join", subject, {"run": moved["run_id"][0]}, after)


def _require_sequence(every: pl.DataFrame, moved: pl.DataFrame, run: str) -> None:
    """Refuse to join attempts that ran at the same time: a restart would take negative time.

    Raises:
        UsageError: an attempt of the run overlaps one that is to join it.
    """
    far = pl.lit(LAST, dtype=pl.Datetime("us", "UTC"))
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


LAST = datetime(9999, 1, 1, tzinfo=UTC)
"""Later than any end."""


def _existing(source: Source, cluster: str, mine: pl.DataFrame, request: RunJoinRequest) -> Correction:
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


def _anchor(source: Source, cluster: str, every: pl.DataFrame) -> list[str]:
    """The first of a run's attempts that no correction joined to it: joined attempts follow that one."""
    moved = {
        key for each in records.read_corrections(source, cluster)
        if each.counts and each.kind == "run_join" for key in each.attempts
    }  # fmt: skip
    rows = every.to_dicts()
    own = [r for r in rows if (r["scheduler"], r["job_id"], r["submitted_at"]) not in moved]
    return key_of((own or rows)[0])


def _requested(source: Source, request: CauseRequest | NodeStateRequest | RunJoinRequest) -> Correction:
    """The correction of a request, not signed yet."""
    if isinstance(request, CauseRequest):
        return _cause(source, request)
    if isinstance(request, NodeStateRequest):
        return _node_state(source, request)
    return _run_join(source, request)


def _correction(
    cluster: str, kind: Kind, subject: dict[str, Any], before: dict[str, Any], after: dict[str, Any]
) -> Correction:
    """A correction without author and reason."""
    return Correction("", cluster, _EVER[0], "", "", kind, subject, before, after)


def _select_cluster(source: Source, requested: str | None, run: str | None = None) -> str:
    """The cluster that a correction is about: the one requested, the only one, or the only one that has the run or job.

    Raises:
        UsageError: there is none, or it may be several.
    """
    names = clusters(source)
    if requested is None and run is not None:
        names = [name for name in names if resolve_run(source, name, run)] or names
    cluster = select_cluster("a correction", names, requested)
    _window(source, cluster)
    return cluster


def _window(source: Source, cluster: str) -> Window:
    computed = source.query("computed", cluster=cluster)
    if computed.is_empty():
        raise UsageError(f"{cluster}: nothing has been computed yet. Run: trackside compute")
    return Window(cluster, computed["since"].item(), computed["until"].item())


def _nodes(source: Source, cluster: str, run: str | None, attempt: int | None) -> list[str]:
    rows = source.query("adjudication_nodes", cluster=cluster, run=run, attempt=attempt)
    return [str(node) for node in rows["node"]]


# Effect ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _State:
    """What a correction can change: verdicts, GPU-hours by category, interruptions by class, runs."""

    judged: tuple[Judged, ...]
    gpu_hours: dict[str, float]
    interrupted: dict[str, int]
    runs: int


def _state(source: Source, cluster: str, claims: Sequence[Claim]) -> _State:
    window = _window(source, cluster)
    lost = lost_rows(source, window).group_by("category").agg(pl.col("gpu_hours").sum())
    ends = source.query("interruptions", cluster=cluster, since=window.since, until=window.until)["class"]
    return _State(
        tuple(verify_claims.verify(source, window, claims)),
        dict(lost.iter_rows()),
        dict(ends.value_counts().iter_rows()),
        source.query("run_attempts", cluster=cluster)["run_id"].n_unique(),
    )


def _differences(before: _State, after: _State) -> list[str]:
    """The differences as lines: verdicts and their values first."""
    lines = []
    was = {each.claim.id: each for each in before.judged}
    for each in after.judged:
        old = was[each.claim.id]
        if old.verdict != each.verdict:
            lines.append(f"verdict {each.claim.id}: {old.verdict} -> {each.verdict} ({_span(old)} -> {_span(each)})")
        elif _numbers(old) != _numbers(each):
            lines.append(f"verdict {each.claim.id}: still {each.verdict} ({_span(old)} -> {_span(each)})")
    lines += [
        f"{category}: {old:,.1f} -> {new:,.1f} GPU-hours"
        for category, old, new in _changed(before.gpu_hours, after.gpu_hours)
        if abs(new - old) >= _LEAST_GPU_HOURS
    ]
    lines += [
        f"{kind} interruptions: {old:.0f} -> {new:.0f}"
        for kind, old, new in _changed(before.interrupted, after.interrupted)
    ]
    if before.runs != after.runs:
        lines.append(f"runs: {before.runs:,} -> {after.runs:,}")
    return lines


_LEAST_GPU_HOURS = 1e-6
"""A smaller difference is rounding."""


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, float, float]]:
    names = sorted({*before, *after})
    both = [(name, float(before.get(name, 0)), float(after.get(name, 0))) for name in names]
    return [each for each in both if each[1] != each[2]]


def _numbers(each: Judged) -> tuple[float | int | None, ...]:
    measured = each.measured
    return measured.value, measured.low, measured.high, measured.n


def _span(each: Judged) -> str:
    """A measurement in a few characters, in the claim's unit."""
    measured = each.measured
    low, high = (NOTHING if end is None else f"{end:.4g}" for end in (measured.low, measured.high))
    value = CANNOT_TELL if measured.value is None else f"{measured.value:.4g}"
    unit = "" if each.claim.unit == "ratio" else f" {each.claim.unit}"
    n = "" if measured.n is None else f", n = {measured.n}"
    return f"{value} [{low}, {high}]{unit}{n}"
