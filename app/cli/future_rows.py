"""`trackside retention --future`: rows of times later than now, stored by a version that still accepted them.

Loading refuses such rows (`ingest.future`). Those of before go to the table `rejects`, as if they had been refused, and
loads that claim to reach further than the day on which they were made are cut there. `trackside doctor` lists them.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from app import console
from app.times import iso
from ingest.counted import counted
from ingest.future import as_json, happened, latest, reason
from ingest.registry import SOURCES
from ingest.tables import REJECTS, TIME, conform
from queries.sql_files import sample_tables, sample_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date

    from queries.warehouse import Reader, Writer

_SOURCES: Final = {table: source.name for source in reversed(SOURCES) for table in source.feeds}

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    **{table: times for table in _SOURCES if (times := happened(table))},
    "loads": ("covers_from", "covers_until"),
}
"""The tables that may hold such rows, and their columns of times."""

OF_LOGS: Final = ("run_sessions", "run_events", "steps")
"""Tables of run logs, which `serve` and fleets read again only where they have changed."""

COMMAND: Final = "trackside retention --future"

_SCHEMA: Final = {"cluster": pl.String(), "table": pl.String(), "rows": pl.Int64(), "latest": TIME}


def stored(source: Reader | Writer, *, now: datetime) -> pl.DataFrame:
    """Number of rows in the future and their latest time, by cluster and table."""
    counted = [
        source.frame(
            f"SELECT cluster, '{table}' AS \"table\", COUNT(*) AS rows, MAX(GREATEST({', '.join(names)})) AS latest "  # noqa: S608 - our own names
            f"FROM {table} WHERE {_ahead(table)} GROUP BY cluster",
            {"latest": latest(now)},
        )
        for table, names in COLUMNS.items()
    ]
    rows = [conform(each, _SCHEMA) for each in counted]
    return pl.concat([pl.DataFrame(schema=_SCHEMA), *rows]).sort("cluster", "table")


def reject(writer: Writer, *, now: datetime) -> pl.DataFrame:
    """Move them to the rejects, all of them or none; returns what `stored` returned before."""
    counted = stored(writer, now=now)
    if counted.is_empty():
        return counted
    with writer.transaction():
        for table in counted["table"].unique().sort():
            if table == "loads":
                writer.run("cut_loads", latest=latest(now), now=now)
                continue
            rows = writer.frame(f"SELECT * FROM {table} WHERE {_ahead(table)}", {"latest": latest(now)})  # noqa: S608 - our own names
            _delete(writer, table, rows, now)
            if table in OF_LOGS:  # their time comes, and no log has changed by then
                writer.delete("read_files", pl.DataFrame({"source": ["runlog"]}))
            writer.append_new("rejects", _rejected(table, rows, now), keys=["cluster", "source", "reason", "raw"])
    return counted


def print_report(counted: pl.DataFrame, *, done: bool) -> None:
    """Print what was moved, or what would be."""
    if counted.is_empty():
        console.echo("No row has a time later than now.")
        return
    columns = {
        "cluster": ("cluster", "text"),
        "table": ("table", "text"),
        "rows": ("rows", "count"),
        "latest": ("latest", "time"),
    }
    moved = ", moved to the table rejects" if done else " (nothing was changed)"
    console.table(f"Rows of times later than now{moved}", counted, columns)
    if done:
        console.echo(
            "Next: trackside compute. If the clock of a whole input was wrong, correct the input and load it again."
        )


def lines(source: Reader, *, now: datetime) -> Iterator[str]:
    """Lines for `trackside doctor`."""
    for cluster, table, rows, last in stored(source, now=now).iter_rows():
        found = f"{cluster} {table}: {counted(rows, 'row')} of times later than now, up to {iso(last)}"
        yield f"{found}; to remove: {COMMAND}"


def _ahead(table: str) -> str:
    later = " OR ".join(f'"{name}" > $latest' for name in COLUMNS[table])
    # Maintenance that is planned lies ahead, and follows from reservations.
    return f"({later}) AND source <> 'slurm.reservations'" if table == "node_states" else f"({later})"


def _delete(writer: Writer, table: str, rows: pl.DataFrame, now: datetime) -> None:
    if table in sample_tables():
        days = rows.select("cluster", pl.col(sample_time(table)).dt.date()).unique().sort(pl.all())
        for cluster, day in days.iter_rows():
            _rewrite(writer, table, cluster, day, now)
        return
    stored_in = "stored.attempts" if table == "attempts" else table
    writer.delete_where(stored_in, _ahead(table), {"latest": latest(now)})
    if table == "attempts":
        writer.delete("resubmissions", rows.select("cluster", "scheduler", "job_id").unique())
        writer.run("add_resubmissions", {"jobs": rows.select("cluster", "scheduler", "job_id").unique()})


def _rewrite(writer: Writer, table: str, cluster: str, day: date, now: datetime) -> None:
    """Write a day again without its rows of times later than now."""
    begin = datetime.combine(day, time(), UTC)
    begins = sample_time(table)
    rest = writer.frame(
        f"SELECT * FROM {table} WHERE cluster = $cluster AND {begins} >= $since "  # noqa: S608 - our own names
        f"AND {begins} < $until AND NOT ({_ahead(table)}) ORDER BY ALL",
        {"cluster": cluster, "since": begin, "until": begin + timedelta(days=1), "latest": latest(now)},
    )
    if rest.is_empty():
        writer.remove_partition(table, cluster, day)
    else:
        writer.write_partition(table, cluster, day, rest)


def _rejected(table: str, rows: pl.DataFrame, now: datetime) -> pl.DataFrame:
    why = [pl.when(pl.col(name) > latest(now)).then(reason(name, name)) for name in COLUMNS[table]]
    made = rows.select(
        "cluster",
        pl.lit(_SOURCES[table]).alias("source"),
        pl.lit(f"the table {table}").alias("origin"),
        pl.lit(None, dtype=pl.Int64).alias("line"),
        pl.coalesce(why).alias("reason"),
        as_json(rows).alias("raw"),
    )
    return conform(made, REJECTS)
