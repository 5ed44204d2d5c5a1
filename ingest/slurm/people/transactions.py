"""Slurm's account changes: who added, changed or removed users, accounts and limits, and when.

slurmdbd writes each change in terms of its own database: its object (`Where`) as a name or a condition,
`(id_assoc=7 || id_assoc=8)`, and the new values (`Info`) as assignments, `acct='llm', user='alice', shares=1`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.delimited.header import DumpLayout, words
from ingest.delimited.reader import LINE
from ingest.errors import InputError
from ingest.slurm.commands.runner import Fetched, Runner, run
from ingest.slurm.formats.text_table import TableColumns, account, read_table, require
from ingest.slurm.formats.timestamps import read_instants
from ingest.slurm.people.associations import DATABASE_HINT
from ingest.slurm.people.merge import merge_users
from ingest.tables import TRANSACTIONS, USERS, conform, earliest_time, latest_time

if TYPE_CHECKING:
    from ingest.context import ParseContext
    from ingest.tables import Parsed

_TIME = re.compile(r"\d{8,12}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*", re.ASCII)
_CONDITION = re.compile(r"\(.*\)|[^(|][^|]*|", re.DOTALL)
_ASSIGNMENTS = re.compile(r"(?:[`\w]+\s*=.*)?", re.DOTALL)

TRANSACTION_TABLE: Final = DumpLayout(
    kind="sacctmgr show transactions output",
    known=frozenset(words("time timestamp action actor where info cluster clusters id user users account accounts")),
    used=frozenset(words("time timestamp action actor where info cluster")),
    # Conditions hold the delimiter, `a || b`, and so does people's text among the new values.
    free_text=frozenset({"where", "info"}),
    shapes={
        **dict.fromkeys(("time", "timestamp"), _TIME),
        **dict.fromkeys(("action", "actor", "cluster"), re.compile(r"[^|]*")),
        "id": re.compile(r"\d*", re.ASCII),
        "where": _CONDITION,
        "info": _ASSIGNMENTS,
        "#end": re.compile(""),
    },
    command="SLURM_TIME_FORMAT=%s sacctmgr -P show transactions Format=Time,Action,Actor,Where,Cluster,ID,Info > t.txt",
)
TRANSACTION_COLUMNS: Final = frozenset({"action", "actor"})


def parse_transactions(data: bytes, context: ParseContext) -> Parsed:
    """Account changes from `sacctmgr -P show transactions`, and when each user's association was made.

    A change without a cluster's name (users, accounts and qualities of service are all clusters' of a slurmdbd) goes
    under the cluster given, else under each that the text names.

    Raises:
        MissingColumnError: A column is missing, or the cluster is unknown.
        TimeZoneError: The times are local and no zone is given.
        InputError: The text as a whole cannot be read.
    """
    rows = read_table(data, TRANSACTION_TABLE, context)
    names = set(rows.header.names)
    lacking = [] if names & {"time", "timestamp"} else ["Time"]
    lacking += [name for name in ("Action", "Actor", "Where", "Info") if name.lower() not in names]
    columns = TableColumns(rows)
    own = columns.word("cluster")
    all_clusters = [context.cluster] if context.cluster else own.drop_nulls().unique().sort().to_list()
    lacking += [] if all_clusters else ["Cluster (or pass --cluster NAME)"]
    require(lacking, rows, context, TRANSACTION_TABLE)
    moments = columns.word("timestamp" if "timestamp" in names else "time")
    times = read_instants(moments, timezone=context.timezone, origin=context.origin)
    table = rows.frame.select(LINE).with_columns(
        own.alias("cluster"),
        times.early.alias("ts"),
        columns.word("actor").fill_null("").alias("actor"),
        columns.word("action").alias("action"),
        columns.word("where").fill_null("").alias("subject"),
        columns.word("info").fill_null("").alias("detail"),
        times.error.alias("time_error"),
    )
    problem = pl.coalesce(
        "time_error",
        pl.when(pl.col("ts").is_null()).then(pl.lit("no time")),
        pl.when(pl.col("action").is_null()).then(pl.lit("no action")),
    )
    usable = table.with_columns(problem=problem)
    good = usable.filter(pl.col("problem").is_null()).drop(LINE)
    once = good.unique(maintain_order=True)
    where = pl.when(pl.col("cluster").is_null()).then(pl.lit(all_clusters)).otherwise(pl.concat_list("cluster"))
    spread = once.with_columns(cluster=where).explode("cluster")
    changes = conform(spread, TRANSACTIONS).unique().sort(*TRANSACTIONS)
    return account(
        rows,
        usable,
        context,
        source="slurm.transactions",
        frames={"transactions": changes, "users": provisioned(changes)},
        clusters=changes["cluster"].unique(),
        loaded=once.height,
        covers=(context.since or earliest_time(once["ts"]), context.until or latest_time(once["ts"])),
    )


def provisioned(changes: pl.DataFrame) -> pl.DataFrame:
    """Users whose association was made by one of the changes (`frames.TRANSACTIONS`), and when: rows of `users`.

    A user may be taken out and put back; the first time counts.
    """
    made = changes.filter(pl.col("action") == "Add Associations").with_columns(
        _assigned("user").alias("user"),
        _assigned("acct").alias("account"),
        pl.col("subject").str.extract(r"\bid_assoc=(\d{1,18})\b", 1).alias("association"),
        pl.lit(None, pl.String).alias("admin_level"),
        pl.col("ts").alias("provisioned_at"),
        pl.lit(None, USERS["first_job_at"]).alias("first_job_at"),
    )
    return merge_users(conform(made.filter((pl.col("user") != "") & (pl.col("account") != "")), USERS))


def _assigned(name: str) -> pl.Expr:
    """The value that a change assigns to a field; null where the change has no such field."""
    return pl.col("detail").str.extract(rf"(?:^|, )`?{name}`? ?= ?'([^']*)'", 1)


def of_cluster(parsed: Parsed, cluster: str) -> Parsed:
    """Without the changes of other clusters that share the slurmdbd; they count as skipped."""
    frames = {name: frame.filter(pl.col("cluster") == cluster) for name, frame in parsed.frames.items()}
    others = parsed.frames["transactions"].height - frames["transactions"].height
    return replace(
        parsed,
        frames=frames,
        clusters=parsed.clusters & {cluster},
        rows_loaded=parsed.rows_loaded - others,
        rows_skipped=parsed.rows_skipped + others,
    )


def fetch_transactions(runner: Runner, *, since: datetime, until: datetime) -> Fetched:
    """Query sacctmgr for the account changes of [since, until), of all clusters.

    With `Clusters=` sacctmgr would leave out users and everything else without a cluster. The two columns of free text
    are separated by typed ones.
    """
    if until <= since:
        message = f"the window is empty: from {since.isoformat()} to {until.isoformat()}"
        raise InputError(message)
    window = [
        f"{name}={moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}" for name, moment in (("Start", since), ("End", until))
    ]
    columns = "Format=TimeStamp,Action,Actor,Where,Cluster,ID,Info"
    return run(runner, ["sacctmgr", "-P", "show", "transactions", *window, columns], hint=DATABASE_HINT)
