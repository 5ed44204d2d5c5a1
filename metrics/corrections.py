"""Manual corrections of the sources: causes of interruptions, states of nodes, and which attempts are one run.

Each function takes a frame as it was derived and the corrections of one kind, and returns the frame as corrected; with
no corrections it returns the frame itself. Corrections are keyed by what sources report (attempt keys, node names,
times), never by what is derived, so they hold when late data change runs or intervals. They are passed in the order in
which they were made: where two concern the same thing the later one counts, and otherwise their order is irrelevant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from metrics import frames
from metrics.runs.runs import ADJUDICATED, put_together, timed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    AttemptKey = tuple[str, str, datetime]
    """Scheduler, job id and submission; the cluster is that of the frame."""

    Execution = tuple[str, int]
    """Run id and attempt number, as derived."""

IN_SERVICE = "in_service"
"""State of a node that was not out of service, whatever the scheduler reported."""

CONTINUED = "continued: "
"""Prefix of the reason of a state that goes on after a correction: nothing happened at its first moment."""


@dataclass(frozen=True)
class CauseFix:
    """The class, cause or node of an interruption, overruled; None leaves what it was before."""

    id: str
    attempts: tuple[AttemptKey, ...]
    reason: str
    kind: str | None = None
    cause: str | None = None
    node: str | None = None


@dataclass(frozen=True)
class StateFix:
    """A node's state for an interval, overruled."""

    id: str
    cluster: str
    node: str
    since: datetime
    until: datetime
    state: str
    author: str
    reason: str


@dataclass(frozen=True)
class RunFix:
    """Attempts that belong to the run of another one (`anchor`), or to none but their own (`anchor` is None).

    With `whole_job` it applies to all attempts of the job that are derived to be one run with those that are named:
    those that come later, too.
    """

    id: str
    attempts: tuple[AttemptKey, ...]
    anchor: AttemptKey | None
    whole_job: bool = True


def attempt_keys(fixes: Sequence[CauseFix | RunFix]) -> pl.DataFrame:
    """The attempts that corrections name, each once: `scheduler`, `job_id`, `submitted_at`."""
    keys = {key for fix in fixes for key in fix.attempts}
    keys |= {fix.anchor for fix in fixes if isinstance(fix, RunFix) and fix.anchor is not None}
    schema = {"scheduler": frames.TEXT, "job_id": frames.TEXT, "submitted_at": frames.TIME}
    return pl.DataFrame(sorted(keys), schema=schema, orient="row")


# Causes ----------------------------------------------------------------------------------------------------------


def corrected_causes(interrupted: pl.DataFrame, fixes: Sequence[CauseFix]) -> pl.DataFrame:
    """Interruptions with classes, causes and nodes as persons overruled them.

    What a correction does not name stays as an earlier one has it, else as it was derived. A cause other than
    infrastructure has no node to blame, unless the correction to that class or a later one names it. The kind of
    evidence stays: a person's word is shown as `detail` and by its id in `adjudication`. Incidents are not drawn again
    here: see `metrics.failures.interruptions.with_incidents`.

    Args:
        interrupted: `frames.INTERRUPTIONS` of one cluster.
        fixes: corrections in the order in which they were made.

    Returns:
        `frames.INTERRUPTIONS`, rows in the same order.
    """
    latest: dict[AttemptKey, CauseFix] = {}
    for fix in fixes:
        latest |= {key: _on_top(latest.get(key), fix) for key in fix.attempts}
    if not latest:
        return interrupted
    fixed = pl.DataFrame(
        [(*key, fix.id, fix.kind, fix.cause, fix.node, fix.reason) for key, fix in latest.items()],
        schema={
            "scheduler": frames.TEXT,
            "job_id": frames.TEXT,
            "submitted_at": frames.TIME,
            "fix_id": frames.TEXT,
            "fix_class": frames.TEXT,
            "fix_cause": frames.TEXT,
            "fix_node": frames.TEXT,
            "fix_reason": frames.TEXT,
        },
        orient="row",
    )
    overruled = pl.col("fix_id").is_not_null()
    kind = pl.coalesce("fix_class", "class")
    corrected = interrupted.join(fixed, on=["scheduler", "job_id", "submitted_at"], how="left").with_columns(
        kind.alias("class"),
        pl.coalesce("fix_cause", "cause").alias("cause"),
        pl.when(overruled & (kind != "infrastructure"))
        .then("fix_node")
        .otherwise(pl.coalesce("fix_node", "node"))
        .alias("node"),
        pl.when(overruled).then(pl.format("{} ({})", "fix_reason", pl.col("detail").fill_null("-")))
        .otherwise("detail")
        .alias("detail"),
        pl.coalesce("fix_id", "adjudication").alias("adjudication"),
    )  # fmt: skip
    return corrected.select(interrupted.columns)


def _on_top(earlier: CauseFix | None, fix: CauseFix) -> CauseFix:
    """A correction with what it leaves out as an earlier one of the same interruption has it."""
    if earlier is None:
        return fix
    node = earlier.node if fix.kind in {None, "infrastructure"} else None
    return replace(fix, kind=fix.kind or earlier.kind, cause=fix.cause or earlier.cause, node=fix.node or node)


# Node states -----------------------------------------------------------------------------------------------------


def corrected_states(states: pl.DataFrame, fixes: Sequence[StateFix]) -> pl.DataFrame:
    """Node states as persons overruled them: within a correction's interval nothing else holds.

    A state that loses its middle leaves two parts; the later one's reason begins with `CONTINUED`, since nothing
    happened at its first moment (see `beginnings`).

    Args:
        states: `frames.NODE_STATES` of one cluster.
        fixes: corrections in the order in which they were made.

    Returns:
        `frames.NODE_STATES`, sorted by node and time.
    """
    if not fixes:
        return states
    named = pl.DataFrame({"node": sorted({fix.node for fix in fixes})})
    touched = states.join(named, on="node", how="semi").to_dicts()
    for fix in fixes:
        touched = [part for row in touched for part in _without(row, fix)]
        if fix.state != IN_SERVICE:
            touched.append(_state_row(fix))
    corrected = pl.DataFrame(touched, schema=states.schema, orient="row")
    rest = states.join(named, on="node", how="anti")
    return pl.concat([rest, corrected]).sort("node", "started_at", "state")


def _without(row: dict[str, Any], fix: StateFix) -> list[dict[str, Any]]:
    """Remainder of a state (a row of `frames.NODE_STATES`) outside of a correction's interval."""
    began, ended = row["started_at"], row["ended_at"]
    if row["node"] != fix.node or began >= fix.until or (ended is not None and ended <= fix.since):
        return [row]
    left = [row | {"ended_at": fix.since}] if began < fix.since else []
    if ended is None or ended > fix.until:
        reason = (row["reason"] or "").removeprefix(CONTINUED)
        left.append(row | {"started_at": fix.until, "reason": CONTINUED + reason})
    return left


def _state_row(fix: StateFix) -> dict[str, Any]:
    return {
        "cluster": fix.cluster,
        "node": fix.node,
        "started_at": fix.since,
        "ended_at": fix.until,
        "state": fix.state,
        "reason": fix.reason,
        "actor": fix.author,
        "planned": fix.state == "maintenance",
    }


def beginnings(states: pl.DataFrame) -> pl.DataFrame:
    """States whose recorded beginning is real: only those can explain an attempt's end.

    Args:
        states: `frames.NODE_STATES`.
    """
    return states.filter(~pl.col("reason").fill_null("").str.starts_with(CONTINUED))


# Runs ------------------------------------------------------------------------------------------------------------


def corrected_runs(joined: pl.DataFrame, attempts: pl.DataFrame, fixes: Sequence[RunFix]) -> pl.DataFrame:
    """Attempts in the runs that corrections assign them to.

    An attempt follows the one that it was joined to, into whatever run that is: so corrections of different attempts
    can be made in any order. Attempts that are set apart together are one run, called as a job's run is: by the job's
    id and its first submission. Should the run that they leave be called so, that one gets a name of its own.

    Args:
        joined: `frames.RUN_ATTEMPTS` of one cluster, as derived.
        attempts: `frames.ATTEMPTS`.
        fixes: corrections in the order in which they were made; those of unknown attempts have no effect.

    Returns:
        `frames.RUN_ATTEMPTS`; `joined_by` is `adjudicated` where a correction put something together or apart.
    """
    if not fixes:
        return joined
    named = attempt_keys(fixes)
    runs = joined.join(named, on=["scheduler", "job_id", "submitted_at"], how="semi").select("run_id").unique()
    touched = joined.join(runs, on="run_id", how="semi")
    groups = _groups(touched, fixes)
    derived = set(touched.select("run_id", "attempt_no").iter_rows())
    moved = {execution for execution in derived if groups[execution] != execution[0]}
    if not moved:
        return joined
    gained = {groups[execution] for execution in moved}
    lost = {execution[0] for execution in moved}
    changed = touched.join(_as_groups(groups), on=["run_id", "attempt_no"]).filter(
        pl.col("group").is_in(sorted(gained | lost))
    )
    names = _names(changed, attempts)
    mine = timed(changed, attempts).with_columns(
        name=pl.col("group").replace_strict(names, return_dtype=pl.String),
        word=pl.when(pl.col("group").is_in(sorted(gained))).then(pl.lit(ADJUDICATED)),
    )
    rest = joined.join(changed, on=list(frames.ATTEMPT_KEY), how="anti")
    return pl.concat([rest, put_together(mine)]).sort("cluster", "run_id", "attempt_no", "job_id")


def _groups(touched: pl.DataFrame, fixes: Sequence[RunFix]) -> dict[Execution, str]:
    """The group of each execution: the derived run's id, or `APART` and a correction's id."""
    execution_of: dict[AttemptKey, Execution] = {}
    of_job: dict[tuple[str, str, str], set[Execution]] = {}
    for row in touched.iter_rows(named=True):
        execution = (row["run_id"], row["attempt_no"])
        execution_of[row["scheduler"], row["job_id"], row["submitted_at"]] = execution
        of_job.setdefault((row["run_id"], row["scheduler"], row["job_id"]), set()).add(execution)
    follows: dict[Execution, Execution | str] = {}
    for fix in fixes:
        anchor = execution_of.get(fix.anchor) if fix.anchor is not None else None
        if fix.anchor is not None and anchor is None:
            continue
        for key in fix.attempts:
            if key not in execution_of:
                continue
            mine = execution_of[key]
            whole = of_job[mine[0], key[0], key[1]] if fix.whole_job else {mine}
            for execution in whole - {anchor}:
                follows[execution] = _APART + fix.id if anchor is None else anchor
    return {execution: _group(execution, follows) for execution in set(execution_of.values())}


def _group(execution: Execution, follows: dict[Execution, Execution | str]) -> str:
    """Group at the end of a chain. Executions in a circle are one: the derived run of the first of them."""
    chain: list[Execution] = []
    at: Execution | str = execution
    while not isinstance(at, str):
        if at in chain:
            return min(chain[chain.index(at) :])[0]
        chain.append(at)
        at = follows.get(at, at[0])
    return at


_APART = "\0"
"""Before a correction's id: no run is called so."""


def _as_groups(groups: dict[Execution, str]) -> pl.DataFrame:
    rows = [(run, number, group) for (run, number), group in groups.items()]
    schema = {"run_id": frames.TEXT, "attempt_no": frames.COUNT, "group": frames.TEXT}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _names(changed: pl.DataFrame, attempts: pl.DataFrame) -> dict[str, str]:
    """Name of each group: that of its run, or of its first job where it is a run of its own."""
    leading = pl.coalesce("het_job_id", "job_id")
    second = pl.col("submitted_at").dt.strftime("-%Y%m%dT%H%M%SZ")
    precise = pl.col("submitted_at").dt.strftime("-%Y%m%dT%H%M%S%.6fZ")
    split = (pl.col("scheduler") == "slurm") & (pl.col("submitted_at").dt.microsecond() > 0)
    own = dict(
        changed.join(attempts.select(*frames.ATTEMPT_KEY, "het_job_id"), on=list(frames.ATTEMPT_KEY))
        .sort("submitted_at", "attempt_no", leading, "job_id")
        .group_by("group", maintain_order=True)
        .first()
        .select("group", leading + pl.when(split).then(precise).otherwise(second))
        .iter_rows()
    )
    separated = {group: name for group, name in own.items() if group.startswith(_APART)}
    taken = set(separated.values())
    return separated | {group: (own[group] if group in taken else group) for group in own if group not in separated}
