"""The inputs of a bundle: rows of the warehouse with pseudonyms in place of names."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl

from app.json_text import as_json
from app.reports.bundle.columns import JOB_ID, KEEP, TABLES
from queries.evidence import stored_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from app.config.settings import Rules
    from app.reports.bundle.columns import Shipped
    from app.reports.bundle.names import Pseudonyms
    from queries.reader import Reader

MARGIN = timedelta(days=1)
"""Around the period: what ended shortly before it may have made room, and what restarted belongs to what ended."""


_NUMBERS = re.compile(r"[0-9_+.%,\[\]-]+")
"""Ids of jobs that reveal nothing: 4103, 4103_7, 4103_[1-8%2], 4103+1."""

OTHER = "other-"
"""Begins the pseudonyms of job names that mean other work than training: `other-evaluation-job-...`."""


@dataclass(frozen=True)
class BundleScope:
    """What of the warehouse is in a bundle: a cluster, and a time (None: all)."""

    cluster: str
    since: datetime | None = None
    until: datetime | None = None


def known_names(source: Reader, cluster: str) -> dict[str, set[str]]:
    """Every name of the cluster that must not be in a bundle, by kind, whether or not its rows are in it."""
    attempts = stored_rows(
        source,
        "stored.attempts",
        ("user", "account", "name", "partition", "job_id", "display_id"),
        "cluster = $cluster",
        cluster=cluster,
    )
    ids = pl.concat([attempts["job_id"], attempts["display_id"]])
    users = stored_rows(source, "users", ("user", "account"), "cluster = $cluster", cluster=cluster)
    nodes = source.query("scope_nodes", cluster=cluster)["node"]
    held = stored_rows(source, "node_states", ("node", "actor"), "cluster = $cluster", cluster=cluster)
    made = stored_rows(source, "adjudications", ("author",), "cluster = $cluster", cluster=cluster)
    return {
        "node": _set(nodes, held["node"]),
        "user": _set(attempts["user"], users["user"]),
        "account": _set(attempts["account"], users["account"]),
        "job": _set(attempts["name"], ids.filter(~ids.str.contains(f"^{_NUMBERS.pattern}$"))),
        "person": _set(held["actor"], made["author"]),
        "partition": _set(attempts["partition"]),
    }


def _set(*columns: pl.Series) -> set[str]:
    return {str(each) for column in columns for each in column.drop_nulls().unique() if each}


def inputs(source: Reader, scope: BundleScope, rules: Rules, names: Pseudonyms) -> dict[str, pl.DataFrame]:
    """The rows of each table, in an order that does not depend on the warehouse; tables without rows are left out."""
    runs = _runs_of(source, scope)
    kept = _ColumnRules(source, scope, rules, names)
    found: dict[str, pl.DataFrame] = {}
    for table, shipped in TABLES.items():
        rows = _rows(source, table, shipped, scope, runs)
        made = rows.select(kept.column(table, name, rule, rows) for name, rule in shipped.columns.items())
        if table == "placements":
            of = found.get("stored.attempts", made.clear())
            made = made.join(of, on=["cluster", "scheduler", "job_id", "submitted_at"], how="semi")
        if made.height:
            found[table] = made.sort(by=[name for name in made.columns if made.schema[name].base_type() is not pl.List],
                                     nulls_last=True, maintain_order=True)  # fmt: skip
    return found


def _runs_of(source: Reader, scope: BundleScope) -> pl.DataFrame:
    """Attempts of the runs that touch the time, with the names that several jobs are joined by."""
    columns = ["run_id", "scheduler", "job_id", "submitted_at", "joined_by"]
    joined = source.query("run_attempts", cluster=scope.cluster).select(columns)
    if scope.since is None:
        return joined
    runs = source.query("runs", cluster=scope.cluster, since=scope.since - MARGIN, until=_end(scope))
    return joined.join(runs.select("run_id"), on="run_id", how="semi")


def _end(scope: BundleScope) -> datetime | None:
    return None if scope.until is None else scope.until + MARGIN


def _rows(source: Reader, table: str, shipped: Shipped, scope: BundleScope, runs: pl.DataFrame) -> pl.DataFrame:
    columns = list(shipped.columns)
    own = {"cluster": scope.cluster} if "cluster" in shipped.columns else {}
    where = "cluster = $cluster" if own else "TRUE"
    bound = {"since": None if scope.since is None else scope.since - MARGIN, "until": _end(scope)}
    timed = shipped.when and ("$since" not in shipped.when or scope.since is not None)
    period = {name: value for name, value in bound.items() if timed and f"${name}" in shipped.when}
    within = f"{where} AND {shipped.when}" if timed else where
    rows = stored_rows(source, table, columns, within, **own, **period)
    if not (shipped.by_run and period):
        return rows if table != "node_lists" else _of_cluster(source, rows, scope)
    key = ["scheduler", "job_id", "submitted_at"]
    every = stored_rows(source, table, columns, where, **own)
    return pl.concat([rows, every.join(runs, on=key, how="semi")]).unique(maintain_order=True)


def _of_cluster(source: Reader, rows: pl.DataFrame, scope: BundleScope) -> pl.DataFrame:
    """Node lists of the cluster's attempts and reservations: the table is of all clusters."""
    named = [
        stored_rows(source, table, ("node_list",), "cluster = $cluster", cluster=scope.cluster)
        for table in ("stored.attempts", "reservations")
    ]
    return rows.join(pl.concat(named).unique(), on="node_list", how="semi")


class _ColumnRules:
    """What becomes of a column, by its rule."""

    def __init__(self, source: Reader, scope: BundleScope, rules: Rules, names: Pseudonyms) -> None:
        lists = stored_rows(source, "node_lists", ("node_list", "nodes"))
        self._lists = dict(lists.iter_rows())
        self._names = names
        self._other = rules.other_work
        self._critical = rules.critical_reasons
        self._joined = _named_runs(source, scope)
        self._of: dict[str, Callable[[str], str]] = {
            "node_list": self._node_list,
            "run": names.run,
            JOB_ID: self._job_id,
            "env_run": names.run,
            "reason": self._reason,
            "json": self._json,
            "text": lambda _: "not included",
            "gpu": self._gpu,
            "load": lambda text: names.of("load", text),
        }

    def column(self, table: str, name: str, rule: str, rows: pl.DataFrame) -> pl.Expr | pl.Series:
        """The column as the bundle has it."""
        if rule == KEEP:
            return pl.col(name)
        if rule == "job":
            kinds = rows.select(_kind(self._other)).to_series()
            return pl.Series(name, [self._job(*each) for each in zip(rows[name], kinds, strict=True)], pl.String)
        if rule == "env_run":
            keys = rows.select("scheduler", "job_id", "submitted_at").rows()
            return pl.Series(name, [self._joined_run(key) for key in keys], pl.String)
        if rule == "state":
            return pl.Series(name, [self._state(*each) for each in rows.select(name, "source").rows()], pl.String)
        one = self._of.get(rule) or (lambda text: self._names.of(rule, text))
        if isinstance(rows.schema[name], pl.List):
            lists = [None if each is None else [one(text) for text in each] for each in rows[name].to_list()]
            return pl.Series(name, [_in_order(table, each) for each in lists], pl.List(pl.String))
        texts = rows[name]
        mapping = {text: one(text) if text else text for text in texts.drop_nulls().unique().to_list()}
        return pl.Series(name, [None if text is None else mapping[text] for text in texts], pl.String)

    def _joined_run(self, key: tuple[Any, ...]) -> str | None:
        run = self._joined.get(key)
        return None if run is None else self._names.of("run", run)

    def _job(self, name: str | None, kind: str | None) -> str | None:
        made = None if name is None else self._names.of("job", name)
        return made if kind is None else f"{OTHER}{kind}-{made or 'job'}"

    def _job_id(self, text: str) -> str:
        """Numbers, as Slurm's are; what is made of names, as ids of Kubernetes' work, gets a pseudonym."""
        return text if _NUMBERS.fullmatch(text) else self._names.of("job", text)

    def _state(self, raw: str, source: str) -> str:
        """Slurm's own words; of reservations it is the reservation's name."""
        return self._names.of("reservation", raw) if source == "slurm.reservations" else raw

    def _node_list(self, text: str) -> str:
        return self._names.node_list(text, self._lists.get(text) or [text])

    def _reason(self, text: str) -> str:
        """What the patterns of critical reasons match in it: nothing else of it counts, but that there is one."""
        one = pl.Series([text], dtype=pl.String)
        found = [one.str.extract(pattern, 0)[0] for pattern in (f"({each})" for each in self._critical)]
        return " ".join(dict.fromkeys(each for each in found if each)) or "other"

    def _gpu(self, text: str) -> str:
        return text if len(text) <= 3 and text.isdecimal() else self._names.of("gpu", text)

    def _json(self, text: str) -> str:
        return as_json(self._json_value(json.loads(text), ""), sort_keys=True)

    def _json_value(self, value: object, key: str) -> object:
        if isinstance(value, dict):
            return {name: self._json_value(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self._json_value(item, key) for item in value]
        if isinstance(value, str) and key in _OF_JSON:
            return self._names.run(value) if _OF_JSON[key] == "run" else self._names.of(_OF_JSON[key], value)
        return value if not isinstance(value, str) or key in _PLAIN_JSON else "not included"


_OF_JSON = {"node": "node", "run": "run", "run_id": "run", "user": "user", "account": "account", "actor": "person"}

_PLAIN_JSON = ("attempts", "anchor", "from", "until", "class", "cause", "state", "kind", "evidence", "whole_job",
               "joined_by", "started_at", "ended_at", "run_of", "submitted_at", "job_id", "scheduler")  # fmt: skip


def _kind(other_work: Mapping[str, str]) -> pl.Expr:
    """The kind of other work that a job's name or partition means, as `metrics.ledger.ledger.other_work` finds it."""
    named = [
        pl.when(pl.any_horizontal(pl.col(each).fill_null("").str.contains(pattern) for each in ("name", "partition")))
        .then(pl.lit(kind))
        for kind, pattern in other_work.items()
    ]  # fmt: skip
    return pl.coalesce(pl.lit(None, dtype=pl.String), *named).alias("kind")


def _in_order(table: str, names: list[str] | None) -> list[str] | None:
    """Nodes of a list in the order of their pseudonyms; a path keeps its order."""
    return sorted(names) if names is not None and table == "node_lists" else names


def _named_runs(source: Reader, scope: BundleScope) -> dict[tuple[Any, ...], str]:
    """Attempt key -> run, where something else than the scheduler's ids or a log joined its attempts."""
    joined = source.query("run_attempts", cluster=scope.cluster)
    by_rule = joined.filter(
        ~pl.col("joined_by").is_in(["single", "requeue_chain", "resize", "explicit", "adjudicated"])
    )
    of_runs = joined.join(by_rule.select("run_id").unique(), on="run_id", how="semi")
    return {key: run for *key_, run in of_runs.select("scheduler", "job_id", "submitted_at", "run_id").rows()
            if (key := tuple(key_))}  # fmt: skip
