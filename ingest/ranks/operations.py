"""Traces of operations as rank times: a line for each worker and step, with its seconds of computation.

The format is that of the artifact of "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI
2025), a Parquet file with an operation a row: `dp_rank`, `stage`, `step`, `optype`, `start_ts` and `duration` in
seconds, and `rank` where it has one. A worker is a pipeline stage of a data-parallel rank. Traces name no hosts: unless
there is a column `node`, each worker counts as a node of its own, called after its run and its place in it, so that
runs do not seem to share nodes. How much of a transfer is waiting is unknown here, and so is `wait_s`.

Times that count from 0 begin at a time that the caller states; those of the artifact count from 0 in every step,
and its steps are put one after the other.
"""

from __future__ import annotations

import io
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.errors import InputError
from ingest.load_warnings import LoadWarning
from ingest.plausible import EARLIEST_S
from ingest.ranks.parse import ROWS
from ingest.tables import REJECTS, TIME, Parsed, conform, earliest_time, latest_time

if TYPE_CHECKING:
    from ingest.ranks.stated import Stated

MAGIC: Final = b"PAR1"
NEEDED: Final = ("dp_rank", "stage", "step", "optype", "start_ts", "duration")
COMPUTATION: Final = ("forward-compute", "backward-compute")

LONGEST_S: Final = 60.0
"""A forward or backward pass of a micro-batch takes milliseconds to seconds. If most take longer than this, the times
are in another unit."""

_WORKER: Final = ("step", "dp_rank", "stage")


def is_parquet(head: bytes) -> bool:
    """Whether bytes begin a Parquet file."""
    return head.startswith(MAGIC)


def parse_operations(data: bytes, *, origin: str, cluster: str, stated: Stated) -> Parsed:
    """Read one trace.

    Args:
        data: the file.
        origin: its name.
        cluster: of its run; empty: unknown, it is refused.
        stated: what the trace does not record.

    Raises:
        InputError: it is no such trace, or damaged; the message names the missing part.
    """
    if not cluster:
        raise InputError(f"{origin}: it names no cluster, and several have accounting: --cluster NAME")
    every = _read(data, origin)
    rows = every.unique(maintain_order=True)
    usable = pl.all_horizontal(
        pl.col("dp_rank", "stage", "step").is_between(0, 2**53),
        pl.col("optype").is_not_null(),
        pl.col("start_ts", "duration").is_finite(),
        pl.col("duration") >= 0,
    ).fill_null(value=False)
    refused = rows.filter(~usable)
    repeated = every.height - rows.height
    lines = _rank_steps(rows.filter(usable), origin, cluster, stated)
    return Parsed(
        "ranks.steps",
        frozenset(lines["cluster"]),
        {"rank_steps": lines},
        _rejects(refused, origin, cluster),
        rows_read=lines.height + refused.height,
        rows_loaded=lines.height,
        rows_rejected=refused.height,
        covers_from=earliest_time(lines["started_at"]),
        covers_until=latest_time(lines["ended_at"]),
        warnings=[LoadWarning("operations_repeated", repeated)] if repeated else [],
    )


def _read(data: bytes, origin: str) -> pl.DataFrame:
    try:
        rows = pl.read_parquet(io.BytesIO(data))
        missing = [name for name in NEEDED if name not in rows.columns]
        if missing:
            raise InputError(f"{origin}: a trace of operations has the columns {', '.join(NEEDED)}; missing: "
                             f"{', '.join(missing)}")  # fmt: skip
        whole, real = ("dp_rank", "stage", "step", "rank"), ("start_ts", "duration")
        return rows.with_columns(
            pl.col([name for name in whole if name in rows.columns]).cast(pl.Int64, strict=False),
            pl.col(real).cast(pl.Float64, strict=False),
            pl.col([name for name in ("optype", "node") if name in rows.columns]).cast(pl.String, strict=False),
        )
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{origin}: cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def _rank_steps(rows: pl.DataFrame, origin: str, cluster: str, stated: Stated) -> pl.DataFrame:
    """Rows of `rank_steps`.

    Raises:
        InputError: nothing computes, or the time of day is unknown.
    """
    computation = rows.filter(pl.col("optype").is_in(COMPUTATION))
    if computation.is_empty():
        raise InputError(f"{origin}: the trace has no computation (optype {' or '.join(COMPUTATION)})")
    usual = float(computation["duration"].median() or 0.0)  # type: ignore[arg-type]  # polars types median() broadly
    if usual > LONGEST_S:
        raise InputError(f"{origin}: a computation takes {usual:,.0f} s; start_ts and duration have to be in seconds")
    number = pl.col("dp_rank") * (pl.col("stage").max() + 1) + pl.col("stage")
    run_id = stated.run_id or PurePath(origin).name.partition(".")[0]
    named = pl.format("{}/dp{}-stage{}", pl.lit(run_id), "dp_rank", "stage")
    placed = rows.with_columns(
        rank=pl.coalesce("rank", number) if "rank" in rows.columns else number,
        node=pl.coalesce(pl.col("node").replace("", None), named) if "node" in rows.columns else named,
    )
    end = (pl.col("start_ts") + pl.col("duration")).max()
    workers = placed.group_by(_WORKER).agg(
        pl.col("rank", "node").first(),
        compute_s=pl.col("duration").filter(pl.col("optype").is_in(COMPUTATION)).sum(),
    )
    steps = _placed(placed.group_by("step").agg(since=pl.col("start_ts").min(), until=end).sort("step"), origin, stated)
    stage = pl.col("stage") if rows["stage"].n_unique() > 1 else pl.lit(None)
    lines = workers.join(steps, on="step").with_columns(
        cluster=pl.lit(cluster),
        run_id=pl.lit(run_id),
        session=pl.lit(stated.session),
        job_id=pl.lit(stated.job_id),
        scheduler=pl.lit(stated.scheduler),
        started_at=pl.from_epoch((pl.col("since") * 1e6).cast(pl.Int64), "us").cast(TIME),
        ended_at=pl.from_epoch((pl.col("until") * 1e6).cast(pl.Int64), "us").cast(TIME),
        stage=stage,
        first_step="step",
        steps=1,
    )
    return conform(lines, ROWS).sort("rank", "started_at")


def _placed(steps: pl.DataFrame, origin: str, stated: Stated) -> pl.DataFrame:
    """Steps with times since 1970.

    Raises:
        InputError: the time of day is unknown.
    """
    if steps["since"].min() >= EARLIEST_S:  # type: ignore[operator]  # a number
        return steps
    if stated.begin is None:
        raise InputError(f"{origin}: its times count from 0; state its begin: --begin 2026-10-01T08:00:00Z")
    begin = stated.begin.timestamp()
    if (steps["since"].diff().drop_nulls() > 0).all() and steps.height > 1:  # one clock for all steps
        return steps.with_columns(pl.col("since", "until") + begin)
    length = pl.col("until") - pl.col("since")
    since = begin + length.cum_sum() - length
    return steps.with_columns(since=since, until=since + length)


def _rejects(rows: pl.DataFrame, origin: str, cluster: str) -> pl.DataFrame:
    reason = "an operation without a step, worker, kind, start or duration"
    columns = {"cluster": cluster, "source": "ranks.steps", "origin": origin, "reason": reason}
    texts = [{**columns, "raw": str(row)} for row in rows.iter_rows(named=True)]
    return conform(pl.DataFrame(texts, schema=dict.fromkeys((*columns, "raw"), pl.String())), REJECTS)
