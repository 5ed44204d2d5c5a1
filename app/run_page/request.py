"""Which run a person means: an id, a name, the job that this shell is part of, or the last run of the caller."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from app.clusters import requested_clusters
from app.errors import UsageError
from app.times import iso

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from queries.warehouse import Reader

_STEP: Final = re.compile(r"(?P<job>\d+(?:[_+]\d+)?)\.(?:\d+|batch|extern|interactive)")
"""A step of a Slurm job, as `sacct` and `squeue --steps` print it: the page is about its job."""

NEWEST: Final = 5
"""Runs that a refusal lists."""

_OTHERS: Final = 4
"""Runs with the same id or name that a note names."""


@dataclass(frozen=True)
class RunChoice:
    """The run that was chosen.

    Attributes:
        cluster: of the run.
        run_id: as accounting has it joined, or as the log names it.
        logged_only: no accounting of it is computed; only its log describes it.
        notes: how it was chosen, where that is not plain.
    """

    cluster: str
    run_id: str
    logged_only: bool
    notes: tuple[str, ...] = ()


def caller() -> str | None:
    """The login name of the caller; None where the system has none."""
    import getpass  # noqa: PLC0415 - only here

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


def choose(
    reader: Reader, requested: str | None, cluster: str | None, *, environment: Mapping[str, str], user: str | None
) -> RunChoice:
    """The run of a request.

    Args:
        reader: the published copy.
        requested: a run id, an id of a Slurm job (`12`, `12_3`, `12+1`, `12.batch`), a name, an id in
            another log of its attempts; None: the job of `SLURM_JOB_ID`, else the last run of `user`, else the newest.
        cluster: only of this cluster.
        environment: of the process.
        user: login name of the caller.

    Raises:
        UsageError: there is no such cluster or run.
    """
    requested_clusters(reader, cluster)
    if requested is not None:
        return _of_text(reader, requested, cluster)
    job = environment.get("SLURM_JOB_ID")
    if job:
        choice = _matching(reader, job, environment.get("SLURM_CLUSTER_NAME") if cluster is None else cluster)
        if choice is None:
            raise UsageError(_unknown(reader, job, cluster, "this shell's job (SLURM_JOB_ID)"))
        return RunChoice(
            choice.cluster, choice.run_id, choice.logged_only, (f"This shell's job, {job}.", *choice.notes)
        )
    return _last(reader, cluster, user)


def _of_text(reader: Reader, text: str, cluster: str | None) -> RunChoice:
    choice = _matching(reader, text.strip(), cluster)
    if choice is None:
        raise UsageError(_unknown(reader, text.strip(), cluster, "run or job"))
    return choice


def _matching(reader: Reader, text: str, cluster: str | None) -> RunChoice | None:
    step = _STEP.fullmatch(text)
    job = step["job"] if step else text
    rows = reader.query("run_candidates", text=text, job=job, cluster=cluster)
    if rows.is_empty():
        return None
    best = [row for row in rows.to_dicts() if row["place"] == rows["place"][0]]
    first = best[0]
    notes = _ambiguous(text, best, clusters=rows["cluster"].n_unique())
    if first["by_other_log"]:
        notes = (f"{text} is the name of this run in another log of its attempts", *notes)
    return RunChoice(first["cluster"], first["run_id"], first["logged_only"], notes)


def _ambiguous(text: str, best: list[dict[str, Any]], *, clusters: int) -> tuple[str, ...]:
    """That the text means other runs, too, and how to choose one of them."""
    if len(best) < 2:
        return ()
    others = best[1:]
    named = ", ".join(_called(row, with_cluster=clusters > 1) for row in others[:_OTHERS])
    more = f" and {len(others) - _OTHERS:,} more" if others[_OTHERS:] else ""
    how = f"trackside run {shlex.quote(others[0]['run_id'])}"
    if others[0]["run_id"] == best[0]["run_id"]:
        how += f" --cluster {shlex.quote(others[0]['cluster'])}"
    return (f"{text} means {len(best):,} runs; this is the newest. The others: {named}{more}. To choose: {how}",)


def _called(row: dict[str, Any], *, with_cluster: bool) -> str:
    return f"{row['run_id']} ({row['cluster']})" if with_cluster else str(row["run_id"])


def _last(reader: Reader, cluster: str | None, user: str | None) -> RunChoice:
    """The last run of the caller, else the newest of all.

    Raises:
        UsageError: there is none.
    """
    if user:
        own = reader.query("newest_runs", cluster=cluster, owner=user, most=1)
        if own.height:
            return _choice(own, f"The last run of {user}; another one: trackside run ID")
    newest = reader.query("newest_runs", cluster=cluster, owner=None, most=1)
    if newest.is_empty():
        raise UsageError(_nothing(reader))
    return _choice(newest, "The newest run; another one: trackside run ID")


def _choice(rows: pl.DataFrame, note: str) -> RunChoice:
    row = rows.row(0, named=True)
    return RunChoice(row["cluster"], row["run_id"], row["logged_only"], (note,))


def _nothing(reader: Reader) -> str:
    if reader.query("any_attempts")["any"].item():
        return "accounting is loaded, but nothing is computed yet. Run: trackside compute"
    return (
        "no run is known yet. Load one:\n"
        "  trackside ingest slurm && trackside compute   # where sacct works\n"
        "  trackside ingest runlog run.jsonl             # a run log: trackside recorder --help"
    )


def _unknown(reader: Reader, text: str, cluster: str | None, what: str) -> str:
    """That there is no such run: what reads alike, the newest runs, and what else may be missing."""
    newest = reader.query("newest_runs", cluster=cluster, owner=None, most=NEWEST)
    if newest.is_empty():
        return _nothing(reader)
    alike = reader.query("similar_runs", text=text, cluster=cluster)["called"].to_list()
    of = f" of {cluster}" if cluster else ""
    lines = [f"there is no {what} {text!r}{of} in the warehouse."]
    if alike:
        lines.append(f"Did you mean: {', '.join(map(str, alike))}?")
    lines.append("The newest runs:")
    lines += [f"  {_line(row)}" for row in newest.to_dicts()]
    lines.append("All of them: trackside show runs. A newer job: trackside ingest slurm && trackside compute")
    return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    name = "" if row["name"] in {None, row["run_id"]} else f"  {row['name'][:24]}"
    owner = f"  {row['user']}" if row["user"] else ""
    return f"{row['run_id']}{name}{owner}  {row['state']}  {iso(row['newest_at'])}"
