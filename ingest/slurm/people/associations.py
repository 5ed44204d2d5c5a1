"""Slurm's people and rules: associations with their limits, users, and qualities of service.

All three are printed by sacctmgr without a time: they are snapshots of the moment `until`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.delimited.header import DumpLayout, words
from ingest.delimited.reader import LINE
from ingest.slurm.commands.runner import Fetched, Runner, run
from ingest.slurm.formats import values
from ingest.slurm.formats.text_table import TableColumns, account, read_table, require
from ingest.slurm.people.merge import USER_KEY, merge_associations, merge_coordinators, merge_qos, merge_users
from ingest.tables import ASSOCIATIONS, COORDINATORS, QOS, USERS, conform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.context import ParseContext
    from ingest.tables import Parsed

DATABASE_HINT: Final = (
    "slurmdbd seems to be down or unreachable: check `sacctmgr show cluster`.\n"
    "This part was not read; the others are loaded all the same. Run it again later."
)


def _by_header(names: str, shortened: Mapping[str, str]) -> Mapping[str, str]:
    """Header in lower case to Slurm's name of the limit; sacctmgr shortens some in its header."""
    return {name.lower(): name for name in names.split()} | {short.lower(): name for short, name in shortened.items()}


GROUP_LIMITS: Final = "GrpJobs GrpJobsAccrue GrpSubmitJobs GrpTRES GrpTRESMins GrpTRESRunMins GrpWall"

ASSOCIATION_LIMITS: Final = _by_header(
    f"{GROUP_LIMITS} MaxJobs MaxJobsAccrue MaxSubmitJobs MaxTRES MaxTRESPerNode MaxTRESMins MaxWall Priority "
    "MinPrioThreshold GrpNodes GrpCPUs GrpMem GrpCPUMins GrpCPURunMins MaxNodes MaxCPUs MaxCPUMins",
    {
        "GrpSubmit": "GrpSubmitJobs",
        "MaxSubmit": "MaxSubmitJobs",
        "MaxTRESPerJob": "MaxTRES",
        "MaxTRESMinsPerJob": "MaxTRESMins",
        "MaxWallDurationPerJob": "MaxWall",
        "MinPrioThres": "MinPrioThreshold",
    },
)
"""What an association may set; the last seven are what `withassoc` prints, named before there were TRES."""

QOS_LIMITS: Final = _by_header(
    f"{GROUP_LIMITS} MaxTRES MaxTRESPerNode MaxTRESMins MaxWall MinTRES MinPrioThreshold LimitFactor UsageThreshold "
    "MaxTRESPerUser MaxJobsPerUser MaxSubmitJobsPerUser MaxJobsAccruePerUser MaxTRESRunMinsPerUser "
    "MaxTRESPerAccount MaxJobsPerAccount MaxSubmitJobsPerAccount MaxJobsAccruePerAccount MaxTRESRunMinsPerAccount "
    "PreemptExemptTime",
    {
        "GrpSubmit": "GrpSubmitJobs",
        "MaxTRESPerJob": "MaxTRES",
        "MaxTRESMinsPerJob": "MaxTRESMins",
        "MaxWallDurationPerJob": "MaxWall",
        "MinPrioThres": "MinPrioThreshold",
        "UsageThres": "UsageThreshold",
        "MaxTRESPU": "MaxTRESPerUser",
        "MaxJobsPU": "MaxJobsPerUser",
        "MaxSubmitPU": "MaxSubmitJobsPerUser",
        "MaxSubmitJobsPU": "MaxSubmitJobsPerUser",
        "MaxJobsAccruePU": "MaxJobsAccruePerUser",
        "MaxTRESRunMinsPU": "MaxTRESRunMinsPerUser",
        "MaxTRESPA": "MaxTRESPerAccount",
        "MaxJobsPA": "MaxJobsPerAccount",
        "MaxSubmitPA": "MaxSubmitJobsPerAccount",
        "MaxSubmitJobsPA": "MaxSubmitJobsPerAccount",
        "MaxJobsAccruePA": "MaxJobsAccruePerAccount",
        "MaxTRESRunMinsPA": "MaxTRESRunMinsPerAccount",
    },
)

_PARTIAL: Final = frozenset({"admin", "adminlevel", "defacct", "defaultaccount", "descr", "org"})
"""Columns of tables of users and of accounts: with `withassoc` they have some of the limits, under old names."""

_OF_ACCOUNTS: Final = frozenset({"descr", "org"})
"""Columns of tables of accounts only."""

_NUMBER = re.compile(r"\d*", re.ASCII)
_NAME = re.compile(r"[^|]*")
_ASSOCIATION_COLUMNS: Final = words(
    "cluster account user partition id parentname parname share fairshare defqos defaultqos qos admin "
    "adminlevel defacct defaultaccount"
)

COORDINATOR_COLUMNS: Final = ("coordaccounts", "coordaccts")
"""Accounts that a user may manage: with `withcoord`."""

ASSOCIATION_TABLE: Final = DumpLayout(
    kind="sacctmgr show assoc (or user) output",
    known=frozenset(
        (
            *_ASSOCIATION_COLUMNS,
            *ASSOCIATION_LIMITS,
            *words("descr org lft rgt parentid qosraw defwckey flags"),
            *COORDINATOR_COLUMNS,
        )
    ),
    used=frozenset((*_ASSOCIATION_COLUMNS, *ASSOCIATION_LIMITS, *COORDINATOR_COLUMNS)),
    free_text=frozenset({"descr", "org"}),
    shapes={
        **dict.fromkeys(("cluster", "account", "user", "partition", "parentname", "qos", "defqos", "admin"), _NAME),
        **dict.fromkeys(("id", "lft", "rgt", "parentid", "grpjobs", "maxjobs", "priority"), _NUMBER),
        **dict.fromkeys(("share", "fairshare"), re.compile(r"\d*|parent", re.ASCII)),
        "#end": re.compile(""),
    },
    command="sacctmgr -P show assoc > assoc.txt",
    lists=frozenset(
        (*words("qos flags"), *COORDINATOR_COLUMNS, *(name for name in ASSOCIATION_LIMITS if "tres" in name))
    ),
)
ASSOCIATION_COLUMNS: Final = frozenset(
    {"share", "fairshare", "parentname", "parname", "defqos", "defaultqos", "admin", "adminlevel"}
).union(ASSOCIATION_LIMITS)
"""Columns that identify such a table; others have accounts and users, too."""

QOS_TABLE: Final = DumpLayout(
    kind="sacctmgr show qos output",
    known=frozenset(
        (*words("name id priority preempt preemptmode gracetime flags usagefactor descr description"), *QOS_LIMITS)
    ),
    used=frozenset((*words("name priority preempt preemptmode gracetime flags usagefactor"), *QOS_LIMITS)),
    free_text=frozenset({"descr", "description"}),
    shapes={
        **dict.fromkeys(("id", "priority", "grpjobs"), _NUMBER),
        **dict.fromkeys(("usagefactor", "limitfactor", "usagethres"), re.compile(r"[\d.]*", re.ASCII)),
        "gracetime": re.compile(r"[\d:-]*", re.ASCII),
        "#end": re.compile(""),
    },
    command="sacctmgr -P show qos > qos.txt",
    lists=frozenset((*words("preempt flags"), *(name for name in QOS_LIMITS if "tres" in name))),
)
QOS_COLUMNS: Final = frozenset({"gracetime", "usagefactor", "preempt", "preemptmode"}).union(
    name for name, limit in QOS_LIMITS.items() if limit.endswith(("PerUser", "PerAccount"))
)


def parse_associations(data: bytes, context: ParseContext) -> Parsed:
    """Associations and users from `sacctmgr -P show assoc`, `show user [withassoc]` or `show account withassoc`.

    Only `show assoc` lists all limits, so associations are read from it alone; a row without a user is the account's
    own there. Users are read from the other tables; `show user` alone lists their default account only. Rows of
    accounts, and of users without an account, are skipped there. Accounts that a user coordinates are read where the
    table has them (`withcoord`).

    Raises:
        MissingColumnError: Account or User, or a cluster's name, is missing.
        InputError: The text cannot be read, or its time is unknown.
    """
    rows = read_table(data, ASSOCIATION_TABLE, context)
    names = set(rows.header.names)
    partial = bool(names & _PARTIAL)
    lacking = [] if names & {"account", "defacct", "defaultaccount"} else ["Account"]
    lacking += [] if "user" in names else ["User"]
    lacking += [] if context.cluster or "cluster" in names else ["Cluster (or pass --cluster NAME)"]
    require(lacking, rows, context, ASSOCIATION_TABLE)
    seen_at = context.seen_at()
    columns = TableColumns(rows)
    table = rows.frame.select(LINE).with_columns(
        columns.word("cluster").fill_null(pl.lit(context.cluster, pl.String)).alias("cluster"),
        columns.word("account", "defacct", "defaultaccount").alias("account"),
        columns.word("user").fill_null("").alias("user"),
        columns.word("partition").fill_null("").alias("partition"),
        values.whole_numbers(columns.word("id")).alias("association"),
        columns.word("parentname", "parname").alias("parent"),
        columns.word("fairshare", "share").alias("fairshare"),
        columns.word("defqos", "defaultqos").alias("default_qos"),
        columns.names("qos").alias("qos"),
        columns.limits(ASSOCIATION_LIMITS).alias("limits"),
        columns.word("admin", "adminlevel").alias("admin_level"),
        _coordinated(columns).alias("coordinated"),
        pl.lit(seen_at).alias("first_seen_at"),
        pl.lit(seen_at).alias("last_seen_at"),
    )
    no_user = table["account"].is_null() | ((table["user"] == "") & partial)
    problem = pl.when(pl.col("cluster").is_null()).then(pl.lit("no cluster name"))
    usable = table.filter(~no_user).with_columns(problem=problem)
    good = usable.filter(pl.col("problem").is_null())
    associations = merge_associations(conform(good, ASSOCIATIONS).clear() if partial else conform(good, ASSOCIATIONS))
    people = good.filter(pl.col("user") != "").with_columns(
        association=pl.col("association").cast(pl.String),
        provisioned_at=pl.lit(None, USERS["provisioned_at"]),
        first_job_at=pl.lit(None, USERS["first_job_at"]),
    )
    users = merge_users(conform(_each_account(people), USERS))
    loaded = people.n_unique(USER_KEY) if partial else associations.height
    return account(
        rows,
        usable,
        context,
        source="slurm.associations",
        frames={
            "associations": associations,
            "users": users,
            "coordinators": _of_accounts(table) if names & _OF_ACCOUNTS else _coordinators(table),
        },
        clusters=good["cluster"].unique(),
        loaded=loaded,
        skipped=int(no_user.sum()),
        covers=(seen_at, seen_at),
    )


def _coordinated(columns: TableColumns) -> pl.Series:
    """The accounts that each user coordinates; null where the table has no such column."""
    name = next((name for name in COORDINATOR_COLUMNS if name in columns.rows.frame.columns), COORDINATOR_COLUMNS[0])
    return columns.names(name)


def _coordinators(table: pl.DataFrame) -> pl.DataFrame:
    """Rows of `coordinators`: a user who coordinates no account is one row, with an empty account."""
    listed = table.filter((pl.col("user") != "") & pl.col("cluster").is_not_null()).drop_nulls("coordinated")
    none = pl.col("coordinated").list.len() == 0
    accounts = pl.when(none).then(pl.lit([""])).otherwise("coordinated")
    return merge_coordinators(conform(listed.with_columns(account=accounts).explode("account"), COORDINATORS))


def _of_accounts(table: pl.DataFrame) -> pl.DataFrame:
    """The same from a table of accounts, whose column of that name has the users."""
    named = table.filter(pl.col("account").is_not_null() & pl.col("cluster").is_not_null()).drop_nulls("coordinated")
    return merge_coordinators(
        conform(named.with_columns(user="coordinated").explode("user").drop_nulls("user"), COORDINATORS)
    )


def _each_account(people: pl.DataFrame) -> pl.DataFrame:
    """A row for each account of a user. A table without associations may list them, commas between: no name has one."""
    apart = people.with_columns(pl.col("account").str.split(",")).explode("account")
    return apart.with_columns(pl.col("account").str.strip_chars()).filter(pl.col("account") != "")


def parse_qos(data: bytes, context: ParseContext) -> Parsed:
    """Qualities of service from `sacctmgr -P show qos`. They are all clusters' of a slurmdbd; the text names none.

    Raises:
        MissingColumnError: Name is missing, or the cluster is unknown.
        InputError: The text cannot be read, or its time is unknown.
    """
    rows = read_table(data, QOS_TABLE, context)
    lacking = [] if "name" in rows.header.names else ["Name"]
    lacking += [] if context.cluster else ["the cluster's name (pass --cluster NAME)"]
    require(lacking, rows, context, QOS_TABLE)
    seen_at = context.seen_at()
    columns = TableColumns(rows)
    grace = columns.word("gracetime")
    table = rows.frame.select(LINE).with_columns(
        pl.lit(context.cluster).alias("cluster"),
        columns.word("name").alias("name"),
        values.whole_numbers(columns.word("priority")).alias("priority"),
        columns.names("preempt").alias("preempts"),
        columns.word("preemptmode").alias("preempt_mode"),
        columns.names("flags").alias("flags"),
        columns.word("usagefactor").cast(pl.Float64, strict=False).alias("usage_factor"),
        values.durations(grace).alias("grace_s"),
        columns.limits(QOS_LIMITS).alias("limits"),
        pl.lit(seen_at).alias("first_seen_at"),
        pl.lit(seen_at).alias("last_seen_at"),
    )
    usable = table.with_columns(problem=pl.when(pl.col("name").is_null()).then(pl.lit("no name")))
    good = usable.filter(pl.col("problem").is_null())
    qos = merge_qos(conform(good, QOS))
    return account(
        rows,
        usable,
        context,
        source="slurm.qos",
        frames={"qos": qos},
        clusters={str(context.cluster)},
        loaded=qos.height,
        covers=(seen_at, seen_at),
    )


# --- live ----------------------------------------------------------------------------------------------

_ASSOCIATION_FORMAT: Final = (
    "Cluster,Account,User,Partition,ID,ParentName,Share,DefaultQOS,QOS,Priority,GrpJobs,GrpJobsAccrue,GrpSubmit,"
    "GrpTRES,GrpTRESMins,GrpTRESRunMins,GrpWall,MaxJobs,MaxJobsAccrue,MaxSubmit,MaxTRES,MaxTRESPerNode,MaxTRESMins,"
    "MaxWall"
)


def fetch_associations(runner: Runner, *, clusters: Sequence[str] | None = None) -> Fetched:
    """Query sacctmgr for all associations with their numbers, parents and limits."""
    command = ["sacctmgr", "-P", "show", "assoc", *_of(clusters), f"Format={_ASSOCIATION_FORMAT}"]
    return run(runner, command, hint=DATABASE_HINT)


def fetch_users(runner: Runner, *, clusters: Sequence[str] | None = None) -> Fetched:
    """Query sacctmgr for all users with their administrator level, associations and accounts that they coordinate."""
    columns = "Format=User,AdminLevel,Coordinators,Cluster,Account,Partition,ID"
    command = ["sacctmgr", "-P", "show", "user", "withassoc", "withcoord", *_of(clusters), columns]
    return run(runner, command, hint=DATABASE_HINT)


def fetch_qos(runner: Runner) -> Fetched:
    """Query sacctmgr for all qualities of service: those of a slurmdbd are all its clusters'."""
    return run(runner, ["sacctmgr", "-P", "show", "qos"], hint=DATABASE_HINT)


def _of(clusters: Sequence[str] | None) -> list[str]:
    """The option that selects clusters; without it sacctmgr lists all clusters of its database."""
    return [f"Clusters={','.join(clusters)}"] if clusters else []
