"""Lines of the demo on the faults planted into its sources: whether each was found, and the false alarms."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from app.times import iso
from ingest.counted import counted

if TYPE_CHECKING:
    from collections.abc import Iterator


def compared_agreement(rows: pl.DataFrame, truth: list[dict[str, Any]]) -> str:
    """How many of the planted disagreements of Slurm and Kubernetes were found, to the second.

    Args:
        rows: the table `sync_intervals`.
        truth: `node`, `kind`, `since` and `until` (seconds since 1970; None while it lasts) of each that was planted.
    """
    until = pl.when(pl.col("ended_by") != "open").then(pl.col("ended_at").dt.epoch("s"))
    ends = rows.select("node", "kind", pl.col("started_at").dt.epoch("s"), until.alias("until"))
    found = set(ends.rows())
    same = [each for each in truth if (each["node"], each["kind"], each["since"], each["until"]) in found]
    return f"Planted disagreements of Slurm and Kubernetes: {len(same)} of {len(truth)} found, to the second"


def compared_work(
    attempts: pl.DataFrame, evictions: pl.DataFrame, outlived: pl.DataFrame, truth: dict[str, Any]
) -> Iterator[str]:
    """How much of the work of Kubernetes was found as it was, and what was named besides.

    Args:
        attempts: the view `attempts`.
        evictions: the table of that name.
        outlived: the table `outlived_jobs`.
        truth: `app.demo.simulate.kubernetes_work.truth`.
    """
    own = attempts.filter(pl.col("scheduler") != "slurm")
    since, until, at = (pl.col(name).dt.epoch("s") for name in ("started_at", "ended_at", "evicted_at"))
    found = own.select("name", "state", since, until, pl.col("n_gpus").cast(pl.Int64), "node_list").rows()
    ordered = evictions.select("name", "reason", "preemptor", at, "gone_s", "held_gpu_s").rows()
    ran = [
        (*(each[name] for name in ("name", "state", "since", "until", "gpus")), ",".join(each["nodes"]))
        for each in truth["attempts"]
    ]
    names = ("job", "reason", "preemptor", "at", "gone_s", "held_gpu_s")
    evicted = [tuple(each[name] for name in names) for each in truth["evictions"]]
    if ran:
        yield (
            f"Planted work of Kubernetes: {_of(ran, found)} attempts and {_of(evicted, ordered)} evictions found, to "
            f"the second; {len(set(found) - set(ran))} attempts named besides"
        )
        lived_on = outlived["job_id"].to_list()
        yield (
            f"Pods of slurm-bridge: {len(truth['placeholders'])}, each of them once, as Slurm's job; "
            f"{_of(truth['outlived'], lived_on)} that outlived theirs found"
        )


def _of(planted: list[Any], found: list[Any]) -> str:
    return f"{sum(each in found for each in planted)} of {len(planted)}"


def compared_anomalies(rows: pl.DataFrame, truth: list[dict[str, Any]]) -> Iterator[str]:
    """The anomaly planted into telemetry, whether it was found, and the false alarms.

    Args:
        rows: `metrics.anomalies.scan.ANOMALIES`.
        truth: `node`, `gpu`, `signal`, `since` and `until` (seconds since 1970) and `effect` of each that was planted.
    """
    flagged = rows.filter(pl.col("anomalous").fill_null(value=False))
    for planted in truth:
        same = flagged.filter(node=planted["node"], device=planted["gpu"], signal=planted["signal"], level="gpu")
        since = iso(datetime.fromtimestamp(planted["since"], UTC))
        result = "not found"
        if same.height:
            row = same.row(0, named=True)
            result = f"found, {100 * row['effect']:+.1f} % since {iso(row['since'])}"
        what = f"GPU {planted['gpu']} of {planted['node']} clocks {100 * planted['effect']:+.1f} % since {since}"
        yield f"Planted anomaly: {what}: {result}"
    others = flagged.filter(~pl.col("node").is_in([planted["node"] for planted in truth]))["node"].n_unique()
    yield f"False alarms: {others:,} of {counted(rows['node'].n_unique(), 'node')}"


def compared_stragglers(rows: pl.DataFrame, truth: list[dict[str, Any]]) -> str:
    """How many of the runs with rank times have the verdict, and the slow node, that was planted.

    Args:
        rows: `metrics.stragglers.sessions.SESSION_STRAGGLERS`.
        truth: `job` (with its restart), `cause` and `node` (None where none is slow) of each that was planted.
    """
    found = {row["session"]: (row["cause"], row["nodes"]) for row in rows.to_dicts()}
    same = [each for each in truth if found.get(each["job"]) == (each["cause"], [each["node"]] if each["node"] else [])]
    causes = ", ".join(each["cause"].replace("_", " ") for each in truth)
    wrong = "".join(
        f"; {each['job']} is {found.get(each['job'], ('nothing',))[0]} instead of {each['cause']}"
        for each in truth
        if each not in same
    )
    return f"Planted stragglers ({causes}): {len(same)} of {len(truth)} verdicts as planted{wrong}"
