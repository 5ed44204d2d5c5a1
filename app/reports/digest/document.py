"""The contents of a digest: one plain value, made of the numbers that `trackside show` gives; its JSON form."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.errors import UsageError
from app.reports.digest.advice import advice
from app.results.coverage import covered
from app.results.people.cost import cost_rows
from app.results.people.use import use_rows
from app.show.answer import Question
from app.show.registry import question_of
from app.times import iso
from app.window import Window
from queries.near_names import near_names

if TYPE_CHECKING:
    from app.config.cost import Cost
    from queries.warehouse import Reader

Document = dict[str, Any]

FORM_VERSION: Final = 1
"""Counts up when a reader of the JSON form would have to change."""

MOST_RUNS: Final = 20
"""Runs and interruptions that are listed; all are counted."""


@dataclass(frozen=True)
class Subject:
    """Whom a digest is about: a user, or a run.

    Attributes:
        kind: user or run.
        name: of the user, or the run's id.
    """

    kind: str
    name: str


@dataclass(frozen=True)
class DigestData:
    """What digests of one period are made of, for every user or every run: read once, however many there are.

    Attributes:
        head: the beginning of each digest: cluster, period, coverage, data.
        kind: user or run.
        computed: the window that the ledger holds.
        use: what each held.
        cost: in money and energy, where prices or power are known.
        lost: GPU-seconds by category, cause and evidence.
        runs: all runs of the period.
        interruptions: attempts that ended without completing.
        checkpoints: how often each run saves, and should.
        waste: of each run.
        currency: of the prices.
    """

    head: Document
    kind: str
    computed: Window
    use: pl.DataFrame
    cost: pl.DataFrame
    lost: pl.DataFrame
    runs: pl.DataFrame
    interruptions: pl.DataFrame
    checkpoints: pl.DataFrame
    waste: pl.DataFrame
    currency: str | None

    @property
    def holders(self) -> list[str]:
        """Who held GPUs in the period, by name."""
        return self.use.filter(pl.col("gpu_s") > 0)["subject"].drop_nulls().sort().to_list()


def gather(source: Reader, requested: Window, period_text: str, kind: str, prices: Cost) -> DigestData:
    """Read what the digests of a period are made of.

    Args:
        source: a published copy.
        requested: the cluster and the period.
        period_text: the period as typed.
        kind: user or run: whom they are about.
        prices: of the configuration.

    Raises:
        UncoveredError: the period has no data.
    """
    coverage = covered(source, requested)
    window = coverage.window
    computed = source.query("computed", cluster=window.cluster).row(0, named=True)
    return DigestData(
        {
            "report": "digest",
            "form_version": FORM_VERSION,
            "trackside": importlib.metadata.version("trackside"),
            "cluster": window.cluster,
            "period": {"asked": period_text.strip(), "since": iso(requested.since), "until": iso(requested.until)},
            "covered": {"since": iso(window.since), "until": iso(window.until), "share": coverage.share},
            "data": {"version": source.data_version, "computed_at": iso(computed["computed_at"])},
        },
        kind,
        Window(window.cluster, computed["since"], computed["until"]),
        use=use_rows(source, window, _COLUMNS[kind]),
        cost=cost_rows(source, window, prices, kind),
        lost=_rows(source, window, "lost", kind),
        runs=_rows(source, window, "runs", "run"),
        interruptions=_rows(source, window, "interruptions", "event"),
        checkpoints=_rows(source, window, "checkpoints", None),
        waste=_rows(source, window, "waste", "run"),
        currency=prices.currency or None,
    )


_COLUMNS: Final = {"user": "user", "run": "run_id"}
"""The column that names whom a digest is about."""


def document(source: Reader, requested: Window, period_text: str, subject: Subject, prices: Cost) -> Document:
    """The digest of a period as a value that JSON can hold; without its digest (`app.reports.sla.document.sealed`).

    Args:
        source: a published copy.
        requested: the cluster and the period.
        period_text: the period as typed.
        subject: whom it is about.
        prices: of the configuration.

    Raises:
        UncoveredError: the period has no data.
        UsageError: nothing is known of the user or the run.
    """
    found = gather(source, requested, period_text, subject.kind, prices)
    _refuse_unknown(source, found.runs, subject, found.computed)
    return document_of(found, subject.name)


def document_of(found: DigestData, name: str) -> Document:
    """The digest of one user or run, out of what was read for all."""
    runs = found.runs.filter(pl.col(_COLUMNS[found.kind]) == name)
    ids = runs["run_id"]
    ended = _of(found.interruptions, "run_id", ids)
    return found.head | {
        "subject": {"kind": found.kind, "name": name},
        "use": _row_of_subject(found.use, name, _USE),
        "cost": _row_of_subject(found.cost, name, _COST) | {"currency": found.currency},
        "time": _time(found.lost, name),
        "runs": {"count": runs.height, "shown": _plain(_largest(runs), _RUN)},
        "interruptions": {"count": ended.height, "shown": _plain(_costliest(ended), _INTERRUPTION)},
        "advice": advice(_of(found.checkpoints, "run_id", ids), _of(found.waste, "subject", ids)),
    }


_USE: Final = ("n_runs", "n_attempts", "n_ended", "n_completed", "n_cancelled", "n_failed", "n_preempted",
               "n_infrastructure", "n_own", "gpu_s", "share", "productive_s", "productive_high_s",
               "productive_share", "productive_share_high", "idle_s", "idle_high_s", "lost_s")  # fmt: skip
_COST: Final = ("cost", "productive_cost", "productive_cost_high", "lost_cost", "gpu_s", "priced_gpu_s", "energy_kwh",
                "energy_gpu_s", "co2_kg")  # fmt: skip
_RUN: Final = ("run_id", "name", "n_gpus", "n_attempts", "state", "allocated", "ettr_low", "ettr_high")
_INTERRUPTION: Final = ("ended_at", "run_id", "attempt_no", "class", "cause", "node", "n_gpus", "cost_gpu_s", "detail")


def _rows(source: Reader, window: Window, name: str, by: str | None) -> pl.DataFrame:
    """The rows of a question of `show`."""
    entry = question_of(name)
    return entry(source, window, Question(by=by, details=False)).rows


def _of(rows: pl.DataFrame, column: str, ids: pl.Series) -> pl.DataFrame:
    return rows.filter(pl.col(column).is_in(ids.implode()))


def _refuse_unknown(source: Reader, runs: pl.DataFrame, subject: Subject, ledger: Window) -> None:
    """Refuse a subject without any record; one without GPU-time in this period gets a digest about that."""
    column = _COLUMNS[subject.kind]
    if subject.name in runs[column]:
        return
    known = _rows(source, ledger, "runs", "run")[column].drop_nulls().unique().sort().to_list()
    if subject.name not in known:
        close = near_names(subject.name, known)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"{ledger.cluster}: there is no {subject.kind} {subject.name!r}{hint}")


def _row_of_subject(rows: pl.DataFrame, name: str, columns: tuple[str, ...]) -> dict[str, Any]:
    """The row of a subject; nulls where there is none."""
    found = rows.filter(pl.col("subject") == name)
    row = found.row(0, named=True) if found.height else {}
    return {column: row.get(column) for column in columns}


def _time(lost: pl.DataFrame, name: str) -> list[dict[str, Any]]:
    """GPU-seconds of a subject by category, cause and evidence, the most first: exact, and all that it held."""
    own = lost.filter(pl.col("subject") == name).sort(
        "gpu_seconds", "category", "cause", "evidence", descending=[True, False, False, False], nulls_last=True
    )
    columns = ("category", "cause", "evidence")
    whole = own["gpu_seconds"].sum()
    return [
        {**{each: row[each] for each in columns}, "gpu_seconds": str(row["gpu_seconds"]),
         "share": float(row["gpu_seconds"] / whole) if whole else None}
        for row in own.iter_rows(named=True)
    ]  # fmt: skip


def _largest(runs: pl.DataFrame) -> pl.DataFrame:
    return runs.sort("allocated", "run_id", descending=[True, False], nulls_last=True)


def _costliest(ended: pl.DataFrame) -> pl.DataFrame:
    order = ["cost_gpu_s", "ended_at", "run_id", "attempt_no"]
    return ended.sort(order, descending=[True, True, False, False], nulls_last=True)


def _plain(rows: pl.DataFrame, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """The first rows as JSON can hold them."""
    times = [name for name in columns if rows.schema[name] == pl.Datetime("us", "UTC")]
    made = rows.select(columns).head(MOST_RUNS).with_columns(pl.col("n_gpus").cast(pl.Float64))
    return [row | {name: iso(row[name]) for name in times} for row in made.iter_rows(named=True)]
