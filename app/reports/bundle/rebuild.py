"""A warehouse made of a bundle's inputs, and the report that it gives: the same for sender and for receiver."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from app.claims.file import read_contract
from app.compute.pipeline import compute
from app.config.settings import Config, Rules
from app.reports.bundle.columns import TABLES
from app.reports.sla import document as sla
from app.times import parse_period
from app.window import Window
from ingest.errors import InputError
from queries import sql_files
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queries.warehouse import Writer

MOST_ROWS = 100_000_000
"""Rows of a table of a bundle."""


@dataclass(frozen=True)
class Method:
    """How the report was made of the inputs.

    Attributes:
        cluster: of the inputs.
        period: of the report, as requested.
        since: where the computation begins.
        until: where it ends.
        computed_at: when the sender computed.
        rules: settings that the numbers depend on.
    """

    cluster: str
    period: str
    since: datetime
    until: datetime
    computed_at: datetime
    rules: Rules

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        moments = {name: _text(getattr(self, name)) for name in ("since", "until", "computed_at")}
        return {"cluster": self.cluster, "period": self.period, **moments, "rules": self.rules.model_dump(mode="json")}

    @classmethod
    def of(cls, values: dict[str, Any]) -> Method:
        """From JSON.

        Raises:
            InputError: it is none.
        """
        try:
            moments = {name: _moment(values[name]) for name in ("since", "until", "computed_at")}
            rules = Rules.model_validate(values["rules"])
            return cls(str(values["cluster"]), str(values["period"]), **moments, rules=rules)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"method.json of the bundle cannot be used: {error}") from None


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no zone")
    return moment.astimezone(UTC)


def bundle_rules(rules: Rules) -> Rules:
    """The sender's rules for rows with pseudonyms: kinds of other work and joined runs are in the pseudonyms."""
    kinds = {kind: f"^other-{kind}-" for kind in rules.other_work}
    changed = {"other_work": kinds, "run_env": "TRACKSIDE_RUN_ID", "run_comment_key": "", "run_wckey": False}
    return rules.model_copy(update=changed | {"run_names": (), "join_by_name": False})


def rebuilt(
    folder: Path, inputs: dict[str, Path], method: Method, claims: Path, progress: Callable[[str], None]
) -> sla.Document:
    """The report that the inputs give.

    Args:
        folder: an empty one for the warehouse.
        inputs: table -> its Parquet file.
        method: how it is made.
        claims: the claims file of the bundle.
        progress: receives what is being done.

    Raises:
        InputError: an input is not as its table is declared.
    """
    settings = Config(rules=method.rules, warehouse=folder)
    with open_writer(folder, verb="report", now=method.computed_at) as writer:
        with writer.transaction():
            for table, file in inputs.items():
                progress(f"loading {table}")
                _load(writer, table, file, method.cluster)
        progress("computing the ledger")
        compute(writer, settings, now=method.computed_at, since=method.since, until=method.until, derive=False)
    progress("judging the claims")
    contract = read_contract(claims)
    with open_reader(folder) as reader:
        window = Window(method.cluster, *parse_period(method.period, contract.time_zone))
        made = sla.document(reader, window, method.period, contract, sla.origin_of_claims(claims))
    return sla.sealed(made)


def _load(writer: Writer, table: str, file: Path, cluster: str) -> None:
    rows = _checked(writer, table, file, cluster)
    shipped = TABLES[table]
    missing = {name: pl.lit("", dtype=pl.String) for name in _required(table) if name not in rows.columns}
    rows = rows.with_columns(**missing)
    if not shipped.by_day:
        writer.append(table, rows)
        return
    for (day,), own in rows.group_by(pl.col("ts").dt.date(), maintain_order=True):
        writer.write_partition(table, cluster, day, own)


def _checked(writer: Writer, table: str, file: Path, cluster: str) -> pl.DataFrame:
    """The rows, if they have just the columns and types that the table has, and are of the cluster."""
    shipped = TABLES[table]
    try:
        height = pl.scan_parquet(file).select(pl.len()).collect().item()
        if height > MOST_ROWS:
            raise InputError(f"{file.name} has {height:,} rows; a bundle has at most {MOST_ROWS:,} of a table")
        rows = pl.read_parquet(file, hive_partitioning=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{file.name} is no Parquet file: {error}") from None
    declared = _types(writer, table)
    wrong = set(rows.columns) ^ set(shipped.columns)
    if wrong:
        raise InputError(f"{file.name} has not the columns of {table}: {', '.join(sorted(wrong)[:5])}")
    for name, type_ in rows.schema.items():
        if type_ != declared[name]:
            raise InputError(f"{file.name}: {name} is {type_}, not {declared[name]}")
    if "cluster" in rows.columns and not (rows["cluster"] == cluster).all():
        raise InputError(f"{file.name} has rows of another cluster than {cluster}")
    return rows


def _types(writer: Writer, table: str) -> dict[str, pl.DataType]:
    from queries.evidence import stored_rows  # noqa: PLC0415 - only here

    return dict(stored_rows(writer, table, list(TABLES[table].columns), "FALSE").schema)


def _required(table: str) -> list[str]:
    """Texts that a table must have, and a bundle leaves out."""
    (declared,) = (each for each in sql_files.all_tables() if table in {each.name, each.shown})
    return [each.name for each in declared.columns if each.type == "VARCHAR NOT NULL"]
