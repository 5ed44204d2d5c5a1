"""Rows of sacct text to attempts: the meaning of each column, and the checks that refuse rows.

A row whose identity, times, nodes or GPUs cannot be read is refused. Anything else that cannot be read is null and
counted in a warning. Nothing that is missing becomes zero, except the holdings of a job that never got a node.

A TRES without gres/gpu does not mean that a job held no GPUs: a site need not record them. Its GPUs are null then, and
other columns hold the evidence there is (`gpus_steps`, `gpus_asked`, `exclusive`), and the view `attempts` derives a
number from all loads.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest import future
from ingest.delimited.reader import LINE
from ingest.load_warnings import LoadWarning
from ingest.plausible import CPUS_PER_NODE, GPUS_OF_REQUEST, GPUS_PER_NODE, MEMORY_PER_NODE, beyond
from ingest.slurm.accounting.columns import DumpColumns
from ingest.slurm.accounting.gpu_requests import of_submit_lines
from ingest.slurm.accounting.jobstats import job_summaries
from ingest.slurm.formats import values
from ingest.slurm.formats.submit_line import without_values
from ingest.slurm.formats.timestamps import consistent_times
from ingest.tables import ATTEMPTS, GPUS, NODE_LISTS, TEXT, Schema, conform

if TYPE_CHECKING:
    from datetime import datetime

SCHEDULER: Final = "slurm"

CLOCKS_S: Final = 60
"""How far an End may lie before its Start: where the clock was set back in between, or two machines record them."""

KILL_WAIT_S: Final = 600
"""How far an End may lie before its Submit: a job that was requeued while Slurm waited for its processes to end."""

ZOMBIE_S: Final = 30 * 86_400
"""A job open for longer may be one whose end slurmdbd never received."""


MOST_GPUS: Final[Schema] = {"cluster": TEXT, "most": GPUS}


@dataclass(frozen=True)
class AttemptRows:
    """Attempts as read, one per row, and the reason for each refusal by line.

    `until` is the last moment that each row covers, `lists` are the node lists that attempts held
    (`frames.NODE_LISTS`), `gpus` is how many GPUs a job of each cluster had at most (null: no TRES
    names any), and `summaries` are those of jobstats in their comments (`frames.JOB_SUMMARIES`).
    """

    attempts: pl.DataFrame
    refused: pl.DataFrame
    warnings: list[LoadWarning]
    until: pl.Series
    lists: pl.DataFrame
    gpus: pl.DataFrame
    summaries: pl.DataFrame


def read_facts(
    frame: pl.DataFrame, *, cluster: str | None, timezone: str | None, origin: str, now: datetime | None = None
) -> AttemptRows:
    """Turn rows without steps into attempts. Rows later than `now` are refused, if `now` is passed."""
    if frame.is_empty():
        return _facts_of_no_rows(tuple(frame.schema.items()), cluster, timezone)
    return _facts(frame, cluster=cluster, timezone=timezone, origin=origin, now=now)


@functools.lru_cache(maxsize=16)
def _facts_of_no_rows(
    schema: tuple[tuple[str, pl.DataType], ...], cluster: str | None, timezone: str | None
) -> AttemptRows:
    """What an answer without rows contains: the same for each of its header. Expressions cost 50 ms on no rows, too."""
    frame = pl.DataFrame(schema=dict(schema))
    return _facts(frame, cluster=cluster, timezone=timezone, origin="", now=None)


def _facts(
    frame: pl.DataFrame, *, cluster: str | None, timezone: str | None, origin: str, now: datetime | None
) -> AttemptRows:
    columns = DumpColumns(frame, timezone=timezone, origin=origin)
    table = pl.concat([_identity(columns, cluster), _times(columns)], how="horizontal")
    table = pl.concat([table, _holdings(columns, table)], how="horizontal")
    table = pl.concat([table, _requests(columns, table), _labels(columns)], how="horizontal")
    table = table.with_columns(frame[LINE], _ahead(now).alias("!future"))
    bad = pl.coalesce([name for name in table.columns if name.startswith("!")])
    refused = table.select(LINE, "cluster", bad.alias("reason")).filter(pl.col("reason").is_not_null())
    good = table.filter(bad.is_null())
    attempts = conform(good, ATTEMPTS)
    summaries, damaged = job_summaries(attempts["admin_comment"])
    return AttemptRows(
        attempts=attempts,
        refused=refused,
        warnings=[*_warnings(columns, good), *damaged],
        until=good["known_until"],
        lists=_held(columns.lists, attempts),
        gpus=_most_gpus(good),
        summaries=summaries,
    )


def _ahead(now: datetime | None) -> pl.Expr:
    """Reason to refuse a row with a time in the future. The Start of a waiting job is an estimate and may lie ahead."""
    shown = {"submitted_at": "Submit", "started_at": "Start", "ended_at": "End"}
    if now is None:
        return pl.lit(None, dtype=pl.String)
    latest = future.latest(now)
    return pl.coalesce(pl.when(pl.col(name) > latest).then(future.reason(name, text)) for name, text in shown.items())


def _held(lists: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """Those of the node lists that attempts held."""
    named = lists.select(pl.col("text").alias("node_list"), "nodes")
    return conform(named.join(attempts, on="node_list", how="semi"), NODE_LISTS)


def _identity(columns: DumpColumns, cluster: str | None) -> pl.DataFrame:
    """Which attempt a row is. Columns whose name begins with `!` are reasons to refuse the row."""
    display = columns.word("jobid", "jobidraw")
    raw = columns.word("jobidraw", "jobid")
    parts, raw_parts = values.job_ids(display), values.job_ids(raw)
    table = pl.DataFrame(
        {
            "cluster": columns.word("cluster").fill_null(pl.lit(cluster, pl.String)),
            "raw": raw,
            "display_id": display,
            "db_index": columns.whole("dbindex"),
            "pending_tasks": raw_parts["tasks"],
            "raw_base": raw_parts["base"],
            "state_text": columns.word("state"),
        }
    )
    is_array = parts["task"].is_not_null() | parts["tasks"].is_not_null()
    return pl.concat([table, parts, columns.state()], how="horizontal").select(
        "cluster",
        "display_id",
        "db_index",
        "state",
        "cancelled_by",
        "known",
        pl.lit(SCHEDULER).alias("scheduler"),
        pl.when(pl.col("pending_tasks").is_null()).then("raw").otherwise("raw_base").alias("job_id"),
        pl.when(is_array).then("base").alias("array_job_id"),
        pl.col("task").alias("array_task_id"),
        pl.when(pl.col("het").is_not_null()).then("base").alias("het_job_id"),
        pl.col("het").alias("het_offset"),
        pl.when(pl.col("cluster").is_null()).then(pl.lit("no cluster name")).alias("!cluster"),
        pl.when(pl.col("raw_base").is_null()).then(_quoted("no job id", "raw")).alias("!job"),
        pl.when(pl.col("state").is_null()).then(_no_state("state_text")).alias("!state"),
    )


def _no_state(name: str) -> pl.Expr:
    return pl.when(pl.col(name).is_null()).then(pl.lit("no state")).otherwise(_quoted("no state", name))


def _quoted(what: str, name: str) -> pl.Expr:
    return pl.format("{}: '{}'", pl.lit(what), pl.col(name).fill_null("").str.slice(0, 60))


def _times(columns: DumpColumns) -> pl.DataFrame:
    """Times of each row; ambiguous ones in the repeated hour of autumn are resolved."""
    submit, eligible, start, end = (columns.time(name) for name in ("submit", "eligible", "start", "end"))
    elapsed, suspended = columns.duration("elapsedraw", "elapsed"), columns.duration("suspended")
    times = consistent_times(
        submit=submit, eligible=eligible, start=start, end=end, elapsed_s=elapsed, suspended_s=suspended
    )
    columns.unreadable["eligible"] += eligible.error.count()
    missing = pl.when(pl.col("submit").is_null()).then(pl.lit("no Submit time"))
    behind = pl.col("start") - pl.col("end")
    backwards = pl.when(behind > pl.duration(seconds=CLOCKS_S)).then(pl.lit("End is before Start"))
    # Such a Submit is of no requeue: were it taken for one, the row would hold its GPUs for no time.
    too_late = pl.col("submit") - pl.col("end") > pl.duration(seconds=KILL_WAIT_S)
    submitted_after = pl.when(pl.col("start").is_not_null() & too_late).then(pl.lit("Submit is after End"))
    table = times.with_columns(
        elapsed_s=elapsed, suspended=suspended, submit_error=submit.error, start_error=start.error, end_error=end.error
    )
    return table.select(
        "elapsed_s",
        "suspended",
        pl.col("submit").alias("submitted_at"),
        pl.col("eligible").alias("eligible_at"),
        pl.col("start").alias("start"),
        pl.when(behind > pl.duration()).then("start").otherwise("end").alias("end"),
        "unsure",
        (behind > pl.duration()).alias("backwards"),
        pl.coalesce("submit_error", missing, "start_error", "end_error", backwards, submitted_after).alias("!time"),
    )


def _holdings(columns: DumpColumns, table: pl.DataFrame) -> pl.DataFrame:
    """Nodes and GPUs held, and from when to when. A job that never got a node holds nothing, whatever its TRES are."""
    lists, expanded = columns.word("nodelist"), columns.nodes()
    requested, allocated = columns.tres("reqtres"), columns.tres("alloctres")
    table = table.select("submitted_at", "start", "end", "state", "elapsed_s", "suspended").with_columns(
        node_list=lists,
        n_listed=expanded["n"],
        list_error=expanded["error"],
        listed_nodes=columns.whole("nnodes", "allocnodes"),
        listed_cpus=columns.whole("alloccpus", "ncpus"),
        alloc_tres=columns.word("alloctres", "allocgres"),
        allocated_gpus=_recorded_gpus(columns),
        allocated_model=allocated["model"],
        allocated_cpus=allocated["cpus"],
        allocated_memory=allocated["memory_bytes"],
        allocated_error=allocated["error"],
        allocated_parts=allocated["parts"],
        requested_gpus=requested["gpus"],
        requested_model=requested["model"],
    )
    # Revoked on this cluster of a federation because another one runs the job: whatever its row, it held nothing.
    pending = pl.col("state").is_in(["PENDING", "REVOKED"])
    final = pl.col("state").is_in(values.ENDED_STATES)
    # RUNNING with an End comes from `sacct --truncate`: the End is the window's. An attempt in an unknown state has
    # ended if it has an End.
    ended = final | (~pl.col("state").is_in(values.OPEN_STATES) & pl.col("end").is_not_null())
    # For a moment sacct may show a final state without its End: Start + Elapsed is taken until it shows one.
    guessed = final & pl.col("end").is_null() & pl.col("start").is_not_null() & pl.col("elapsed_s").is_not_null()
    table = table.with_columns(guessed=guessed).with_columns(end=pl.when("guessed").then(_ran_until()).otherwise("end"))
    held = pl.col("start").is_not_null() & (pl.col("n_listed") > 0).fill_null(value=False) & ~pending
    # An allocation without steps of its own may be recorded with its node list and request only.
    only_request = pl.col("alloc_tres").is_null() | (
        (pl.col("listed_nodes") == 0) & (pl.col("allocated_gpus").fill_null(0) == 0)
    )
    gpus = (
        pl.when(only_request)
        .then(pl.col("requested_gpus").fill_null(pl.col("allocated_gpus")))
        .otherwise("allocated_gpus")
    )
    table = table.with_columns(held=held, ended=ended, final=final, gpus=gpus)
    # How many GPUs parts of them (shards) are, accounting does not record: a 0 beside them is none.
    parts = pl.col("held") & pl.col("allocated_parts") & (pl.col("gpus").fill_null(0) == 0)
    table = table.with_columns(parts=parts).with_columns(
        gpus=pl.when(~parts).then("gpus"),
        n_cpus=pl.coalesce("listed_cpus", "allocated_cpus"),
        too_many_gpus=pl.col("held") & beyond("gpus", GPUS_PER_NODE, pl.col("n_listed")),
    )
    too_many_cpus = beyond("n_cpus", CPUS_PER_NODE, pl.col("n_listed"))
    too_much_memory = beyond("allocated_memory", MEMORY_PER_NODE, pl.col("n_listed"))
    return table.select(
        "held",
        *_period(),
        pl.when("held").then("node_list").alias("node_list"),
        pl.when("held").then(pl.col("n_listed").cast(pl.Int64)).otherwise(0).alias("n_nodes"),
        pl.when(~pl.col("held")).then(0).when(~too_many_cpus).then("n_cpus").alias("n_cpus"),
        pl.when("held").then("gpus").otherwise(0).cast(GPUS).alias("n_gpus"),
        pl.coalesce("allocated_model", "requested_model").alias("gpu_model"),
        pl.when(pl.col("held") & ~too_much_memory).then("allocated_memory").alias("alloc_mem_bytes"),
        "alloc_tres",
        (pl.col("held") & (pl.col("listed_nodes") > 0) & (pl.col("listed_nodes") != pl.col("n_listed"))).alias(
            "miscounted"
        ),
        (~pl.col("held") & ~pending & _has_run()).alias("nowhere"),
        "parts",
        (pl.col("held") & ~pl.col("ended") & (pl.col("elapsed_s") > ZOMBIE_S)).alias("zombie"),
        "guessed",
        pl.when("guessed").then(pl.lit(value=True)).alias("end_guessed"),
        (pl.col("held") & ~pl.col("ended") & pl.col("end").is_not_null()).alias("cut"),
        pl.when(pl.col("start").is_not_null() & ~pending).then("list_error").alias("!nodes"),
        pl.when("held").then("allocated_error").alias("!tres"),
        pl.when("too_many_gpus").then(_too_many_gpus()).alias("!gpus"),
        (pl.col("held") & (too_many_cpus | too_much_memory)).alias("oversized"),
        pl.when(pl.col("final") & pl.col("end").is_null())
        .then(pl.format("{} without an End time", pl.col("state")))
        .alias("!end"),
    )


def _has_run() -> pl.Expr:
    """Whether a row ran for some time: by its Elapsed, else by Start and End. A running one has no End yet."""
    by_times = pl.col("start").is_not_null() & (pl.col("end").is_null() | (pl.col("end") > pl.col("start")))
    return pl.coalesce(pl.col("elapsed_s") > 0, by_times)


def _too_many_gpus() -> pl.Expr:
    return pl.format(
        "{} GPUs on {} nodes cannot be (at most {} a node: {})",
        pl.col("gpus").cast(pl.Int64),
        "n_listed",
        pl.lit(f"{GPUS_PER_NODE.most:g}"),
        pl.lit(GPUS_PER_NODE.why),
    )


def _recorded_gpus(columns: DumpColumns) -> pl.Series:
    """GPUs allocated, as recorded. GPUs in ReqTRES prove that accounting records them; then missing ones count as 0."""
    requested, allocated = columns.tres("reqtres")["gpus"], columns.tres("alloctres")["gpus"]
    held_none = pl.select(pl.when(requested > 0).then(pl.lit(0, GPUS))).to_series()
    return allocated.fill_null(columns.gres("allocgres")).fill_null(held_none)


def _period() -> list[pl.Expr]:
    """Start, end and suspension of the attempt itself.

    The row after a RESIZING one keeps the original Start, and so may a requeue's; its time begins with its own Submit.
    The suspension is what End - Start exceeds Elapsed by, both counted from the Start that Slurm shows. What Suspended
    records may be older than this row, too; it is limited to the row's own time.
    """
    ended_at = pl.when("ended").then("end")
    started_at = pl.min_horizontal(pl.max_horizontal("start", "submitted_at"), ended_at)
    excess = (ended_at - pl.col("start")).dt.total_microseconds() / 1e6 - pl.col("elapsed_s")
    suspended = pl.coalesce("suspended", pl.when("held").then(excess.clip(lower_bound=0)))
    own = (ended_at - started_at).dt.total_microseconds() / 1e6
    suspended = pl.min_horizontal(suspended, pl.when(suspended.is_not_null()).then(own))
    still = pl.when(pl.col("held") & ~pl.col("ended")).then(_ran_until())
    return [
        pl.when("held").then(started_at).alias("started_at"),
        ended_at.alias("ended_at"),
        suspended.alias("suspended_s"),
        pl.max_horizontal("submitted_at", pl.when("held").then("start"), ended_at, still).alias("known_until"),
    ]


def _ran_until() -> pl.Expr:
    """How far a row's own Elapsed reaches: for a running job the time when sacct ran."""
    run = pl.col("elapsed_s").fill_null(0) + pl.col("suspended").fill_null(0)
    return pl.col("start") + pl.duration(microseconds=(run * 1e6).cast(pl.Int64))


def _requests(columns: DumpColumns, table: pl.DataFrame) -> pl.DataFrame:
    """The requested resources."""
    requested = columns.tres("reqtres")
    columns.unreadable["reqtres"] += requested["error"].count()
    nodes, cpus = columns.whole("reqnodes"), columns.whole("reqcpus")
    submitted = columns.label("submitline")
    by_line = of_submit_lines(submitted, table["n_nodes"])
    gres = columns.gres("reqgres")
    held_or = table.select(
        pl.when(pl.col("n_nodes") > 0).then("n_nodes").otherwise(nodes).alias("n"),
        pl.when(pl.col("n_cpus") > 0).then("n_cpus").otherwise(cpus).alias("c"),
    )
    return pl.DataFrame(
        {
            "req_nodes": nodes.fill_null(requested["nodes"]),
            "req_cpus": cpus.fill_null(requested["cpus"]),
            "req_gpus": requested["gpus"].set(requested.select(beyond("gpus", GPUS_OF_REQUEST)).to_series(), None),
            "gpus_asked": by_line["gpus"].cast(GPUS).fill_null(gres),
            "exclusive": by_line["exclusive"],
            "req_mem_bytes": columns.memory(held_or["n"], held_or["c"]),
            "req_tres": columns.word("reqtres", "reqgres"),
            "time_limit_s": columns.time_limit(),
            "priority": columns.whole("priority"),
        }
    )


def _labels(columns: DumpColumns) -> pl.DataFrame:
    """The labels of the job by its user and the scheduler."""
    code, derived = columns.exit_code("exitcode"), columns.exit_code("derivedexitcode")
    chosen = ("user", "account", "group", "partition", "qos", "reservation", "comment", "wckey")
    return pl.DataFrame(
        {
            "exit_code": code["code"],
            "exit_signal": code["signal"],
            "derived_exit_code": derived["code"],
            "derived_exit_signal": derived["signal"],
            "reason": columns.word("reason"),
            "uid": columns.whole("uid"),
            "name": columns.text("jobname"),
            "work_dir": columns.text("workdir"),
            "sluid": columns.word("sluid"),
            "restarts": columns.whole("restarts"),
            "flags": columns.word("flags"),
            "failed_node": columns.word("failednode"),
            "constraints": columns.label("constraints"),
            "admin_comment": columns.label("admincomment"),
            "submit_line": without_values(columns.label("submitline")),
            **{name: columns.label(name) for name in chosen},
        }
    )


def _warnings(columns: DumpColumns, good: pl.DataFrame) -> list[LoadWarning]:
    """Warnings about these rows."""
    unread = sorted((name, count) for name, count in columns.unreadable.items() if count)
    novel = good.filter(~pl.col("known"))["state"].value_counts().sort("state").rows()
    return [
        *(LoadWarning("values_unread", count, name) for name, count in unread),
        *(LoadWarning("state_unknown", count, state) for state, count in novel),
        *_counted(good, "miscounted", "nodes_miscounted"),
        *_counted(good, "guessed", "end_guessed"),
        *_counted(good, "cut", "times_truncated"),
        *_counted(good.filter(pl.col("ended_at").is_not_null()), "backwards", "end_before_start"),
        *_counted(good, "unsure", "local_time_ambiguous"),
        *_counted(good, "oversized", "resources_implausible"),
        *_counted(good, "parts", "gpu_parts"),
        *_counted(good, "zombie", "running_for_long"),
        *_counted(good, "nowhere", "ran_without_node"),
        *_several_of_one_second(good),
        *no_gpus(_most_gpus(good)),
    ]


def _counted(good: pl.DataFrame, column: str, code: str) -> list[LoadWarning]:
    count = int(good[column].sum())
    return [LoadWarning(code, count)] if count else []


def _several_of_one_second(good: pl.DataFrame) -> list[LoadWarning]:
    """Jobs with rows that ended, of one Submit and with several Starts: without DBIndex they are merged into one."""
    ended = good.filter(
        pl.col("db_index").is_null() & pl.col("started_at").is_not_null() & pl.col("ended_at").is_not_null()
    )
    key = ["cluster", "job_id", "submitted_at"]
    alike = ended.filter(ended.select(key).is_duplicated())
    count = alike.group_by(key).agg(pl.col("started_at").n_unique()).filter(pl.col("started_at") > 1).height
    return [LoadWarning("rows_of_one_submit", count)] if count else []


def _most_gpus(good: pl.DataFrame) -> pl.DataFrame:
    """The most GPUs in the TRES of a job of each cluster, null where none names any; no row where no job held nodes."""
    most = pl.max_horizontal("n_gpus", "req_gpus").max().alias("most")
    return conform(good.filter("held").group_by("cluster").agg(most), MOST_GPUS)


def no_gpus(most_gpus: pl.DataFrame) -> list[LoadWarning]:
    """Without gres/gpu in AccountingStorageTRES accounting does not record GPUs: they are unknown, not 0."""
    return [
        LoadWarning("no_gpus_accounted", None, cluster)
        for cluster in sorted(most_gpus.filter(pl.col("most").is_null())["cluster"])
    ]
