"""`trackside status`: what was read, how fresh it is, what was refused, and which checks warn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app import console
from app.times import iso
from ingest.counted import counted
from ingest.load_warnings import from_records, messages
from ingest.registry import source
from ingest.row_counts import row_counts

if TYPE_CHECKING:
    from datetime import datetime

    from queries.warehouse import Reader


REASONS: Final = 20
"""Reasons of rejected rows that are shown."""

GAPS: Final = 10
"""Gaps that are shown."""


def status(reader: Reader, *, now: datetime) -> None:
    """Print the state of the warehouse."""
    console.paragraph(f"warehouse {reader.place}, data version {reader.data_version}, seen at {now:%Y-%m-%dT%H:%M:%SZ}")
    console.echo()
    sources = _sources(reader, now)
    if sources.is_empty():
        console.paragraph(
            "Nothing has been loaded yet. First: trackside ingest slurm (its --help lists the files it takes)"
        )
    else:
        _show_sources(sources)
    _warnings(reader, sources)
    _gaps(reader)
    _removed(reader)
    _computed(_ledgers(reader, sources))
    rejects = reader.query("status_rejects")
    if rejects.height:
        console.echo()
        console.table(
            "Rejected rows by reason, the most frequent first (all of them: trackside export rejects -o rejects.csv)",
            rejects.head(REASONS),
            {
                "n": ("rows", "count"),
                "source": ("source", "text"),
                "reason": ("reason", "text"),
                "first_seen": ("first seen", "text"),
            },
        )
        if rejects.height > REASONS:
            console.paragraph(f"... and {rejects.height - REASONS} more reasons")
    results = reader.failed_checks()
    if results:
        console.echo()
    for result in results:
        console.paragraph(f"{result.check.severity}: {result.check.description} ({result.count}; {result.check.name})")


def _show_sources(sources: pl.DataFrame) -> None:
    """The table of what is loaded."""
    console.table(
        "The warehouse, and the last load of each source",
        sources.with_columns(pl.Series("rows", list(map(_listed, sources["rows"].to_list())), pl.String)),
        {
            "cluster": ("cluster", "text"),
            "source": ("source", "text"),
            "rows": ("rows now", "text"),
            "covers_from": ("covers from", "time"),
            "covers_until": ("to", "time"),
            "age_s": ("age", "seconds"),
            "loads": ("loads", "count"),
            "loaded_at": ("last load", "time"),
            "read": ("rows read", "count"),
            "new": ("new", "count"),
            "known": ("known", "count"),
            "skipped": ("skipped", "count"),
            "rejected": ("rejected", "count"),
        },
    )


def document(reader: Reader, *, now: datetime) -> dict[str, Any]:
    """The state of the warehouse for machines; what is not known is null.

    `sources`: for each source of a cluster its `rows` now by table, the time that it covers, and its `last_load`: all
    inputs that were read in one ingest. `read` is `new` + `known` + `skipped` + `rejected`, unless a source counts
    otherwise. `warnings` compare sources with their earlier loads, `gaps` are times that no load covers, `removals`
    what retention removed, `ledgers` what was computed, `rejects` rejected rows by reason, `checks` the data checks
    with findings.
    """
    sources = _sources(reader, now)
    last = ("loaded_at", "inputs", "read", "new", "known", "skipped", "rejected", "warnings")
    return {
        "warehouse": reader.place,
        "data_version": reader.data_version,
        "seen_at": now,
        "sources": [
            {
                **{name: value for name, value in row.items() if name not in {*last, "rows"}},
                "rows": {each["fed"]: each["n"] for each in row["rows"]},
                "last_load": {name: row[name] for name in last},
            }
            for row in sources.to_dicts()
        ],
        "warnings": reader.query("source_warnings").to_dicts(),
        "gaps": reader.query("load_gaps").to_dicts(),
        "removals": reader.query("removals").to_dicts(),
        "ledgers": _ledgers(reader, sources),
        "rejects": reader.query("status_rejects").to_dicts(),
        "checks": [
            {
                "name": each.check.name,
                "severity": each.check.severity,
                "description": each.check.description,
                "n": each.count,
            }
            for each in reader.failed_checks()
        ],
    }


def _sources(reader: Reader, now: datetime) -> pl.DataFrame:
    """Each source of a cluster: its rows now, the time that it covers, and its last load."""
    counts = row_counts(reader)
    rows = counts.group_by("cluster", "source", maintain_order=True).agg(pl.struct("fed", "n").alias("rows"))
    covered = reader.query("status_sources").select("cluster", "source", "loads", "covers_from", "covers_until")
    loads = reader.query("last_loads")
    last = loads.select(
        "cluster",
        "source",
        "loaded_at",
        "inputs",
        pl.col("rows_read").alias("read"),
        pl.col("rows_new").alias("new"),
        (pl.col("rows_taken") - pl.col("rows_new")).alias("known"),
        pl.col("rows_skipped").alias("skipped"),
        pl.col("rows_rejected").alias("rejected"),
        pl.Series("warnings", list(map(_messages, loads["warnings"])), pl.List(pl.String)),
    )
    key = ["cluster", "source"]
    return (
        covered.join(rows, on=key, how="left", maintain_order="left")
        .join(last, on=key, how="left", maintain_order="left")
        .with_columns(
            pl.col("rows").fill_null(pl.lit([], rows.schema["rows"])),
            age_s=(pl.lit(now) - pl.col("covers_until")).dt.total_seconds().cast(pl.Float64),
        )
    )


def _listed(rows: list[dict[str, Any]]) -> str:
    """Counts of tables.

    >>> _listed([{"fed": "associations", "n": 1200}, {"fed": "users", "n": 3}])
    '1,200 associations, 3 users'
    """
    return ", ".join(f"{each['n']:,} {each['fed']}" for each in rows) or "0"


def _messages(records: pl.Series | None) -> list[str] | None:
    """The messages of warnings, each once, sorted; None where there are none."""
    return None if records is None else sorted(set(messages(from_records(records.to_list()))))


def _warnings(reader: Reader, sources: pl.DataFrame) -> None:
    """Print warnings of the last loads, and differences from earlier loads."""
    for row in sources.iter_rows(named=True):
        for warning in row["warnings"] or []:
            console.paragraph(f"warning: {row['cluster']} {row['source']}: {warning}")
    for row in reader.query("source_warnings").iter_rows(named=True):
        console.paragraph(f"warning: {row['cluster']} {row['source']}: {row['message']}")


def _removed(reader: Reader) -> None:
    """Print what retention removed."""
    for row in reader.query("removals").iter_rows(named=True):
        console.paragraph(
            f"removed: {row['cluster']}: {row['rows']:,} {row['table_name']} before {iso(row['before'])} "
            f"(trackside retention, last at {iso(row['removed_at'])})"
        )


def _gaps(reader: Reader) -> None:
    """Print the time that no load covers, with the command that loads it."""
    gaps = reader.query("load_gaps")
    for row in gaps.head(GAPS).iter_rows(named=True):
        title = source(row["source"]).title
        since, until = iso(row["started_at"]), iso(row["ended_at"])
        verb = row["source"].partition(".")[0]
        slurm = "read it where Slurm is, or load a\n     dump of that time:"
        again = slurm if verb == "slurm" else "query it again, or\n     load a file:"
        console.paragraph(
            f"gap: {row['cluster']}: {title} of {since} to {until} is missing; {again} trackside ingest {verb} "
            f"--since {since} --until {until}"
        )
    if gaps.height > GAPS:
        console.paragraph(f"... and {gaps.height - GAPS} more gaps (trackside export load_gaps)")


def _ledgers(reader: Reader, sources: pl.DataFrame) -> list[dict[str, Any]]:
    """Computed ledger of each cluster, and the number of loads since; all null where nothing was computed."""
    ledgers = []
    for cluster in sources["cluster"].unique().sort():
        computed = reader.query("computed", cluster=cluster)
        row = computed.row(0, named=True) if computed.height else {}
        newer = reader.query("loads_since_computed", cluster=cluster)["loads"].item() if row else None
        times = {name: row.get(name) for name in ("since", "until", "computed_at")}
        ledgers.append({"cluster": cluster, **times, "loads_since": newer})
    return ledgers


def _computed(ledgers: list[dict[str, Any]]) -> None:
    console.echo()
    for row in ledgers:
        if row["computed_at"] is None:
            console.paragraph(f"{row['cluster']}: nothing computed yet; run: trackside compute")
            continue
        newer = row["loads_since"]
        behind = f"; {counted(newer, 'load')} since: run trackside compute" if newer else ""
        console.paragraph(
            f"{row['cluster']}: ledger covers {row['since']:%Y-%m-%dT%H:%M:%SZ} to {row['until']:%Y-%m-%dT%H:%M:%SZ}, "
            f"computed {row['computed_at']:%Y-%m-%dT%H:%M:%SZ}{behind}"
        )
