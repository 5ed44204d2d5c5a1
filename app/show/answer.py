"""`trackside show`: what an answer is, putting those of several clusters together, and explaining one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.corrections.describe import shortened
from app.results.constants import computed_constants
from app.results.references import readable
from app.results.windows import CLAIMED_GPUS
from app.times import iso
from queries import sql_files

if TYPE_CHECKING:
    from pathlib import Path

    from app.config.watched import Configured
    from app.window import Window
    from queries.warehouse import Reader

MOST_EXPLAINED: Final = 40
"""Rows of what a cluster has many of, of which `--explain` lists the parts of a number."""


@dataclass(frozen=True)
class Question:
    """The options of a `show` request."""

    by: str | None = None
    run: str | None = None
    at: float | None = None
    convention: str | None = None
    details: bool = True
    """Whether the tables of the arithmetic behind the rows are needed, too."""
    config: Path | None = None
    """The configuration file, for what is read only when it is needed: prices, references. None: the usual place."""
    known: Configured | None = None
    """The configuration that the questions read, if the caller has read it; None: `config` is read."""

    @property
    def dimension(self) -> str:
        """What to split by; the question's entry has put its default where nothing was requested."""
        if self.by is None:
            raise ValueError("questions are called by their entries (app.show.registry), which have their defaults")
        return self.by

    @property
    def configured(self) -> Configured:
        """Prices and references.

        Raises:
            ConfigError: the configuration file has mistakes.
        """
        if self.known is not None:
            return self.known
        from app.config import settings  # noqa: PLC0415 - heavy, and only here
        from app.config.watched import Configured  # noqa: PLC0415 - as above

        return Configured.of(settings.load(self.config))

    @property
    def at_gpus(self) -> float:
        """The job size that a rate is scaled to."""
        return self.at or CLAIMED_GPUS


PARTS = (
    "metric",
    "subject",
    "value",
    "numerator",
    "denominator",
    "n",
    "bound_low",
    "bound_high",
    "ci_low",
    "ci_high",
    "ci_method",
    "evidence_log",
    "evidence_telemetry",
    "evidence_accounting",
    "evidence_assumed",
)
"""Parts of a number as result rows call them."""


@dataclass(frozen=True)
class Details:
    """A table that belongs to an answer's arithmetic: `--explain` shows it.

    Attributes:
        title: a heading for people.
        rows: all columns.
        columns: column -> heading and display unit, for people.
    """

    title: str
    rows: pl.DataFrame
    columns: dict[str, tuple[str, str]]


@dataclass(frozen=True)
class Order:
    """How a terminal sorts the rows of an answer where no --sort is given; pipes and files keep the order of the rows.

    Attributes:
        keys: sorted by these, the smallest first, unknown ones last; rows that are equal in all keep their order.
        words: the end of the title: which rows come first.
    """

    keys: tuple[pl.Expr, ...]
    words: str

    def sorted(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows in this order."""
        return rows.sort(*self.keys, nulls_last=True, maintain_order=True)


MOST_HELD: Final = Order((-pl.col("allocated"),), "the largest first")
"""Runs by the GPU-time that was allocated to them."""


@dataclass(frozen=True)
class Brief:
    """A shorter form of an answer's rows: small shares put together, or a row for each subject.

    Attributes:
        rows: what a terminal shows.
        columns: column -> heading and display unit.
        below: what was put together, and how to see it; empty if nothing was.
        notes: notes on these rows; None: the notes on all rows.
        on_pages: whether pages show it, too: it ranks the subjects, and the headline names the first of them.
    """

    rows: pl.DataFrame
    columns: dict[str, tuple[str, str]]
    below: str = ""
    notes: tuple[str, ...] | None = None
    on_pages: bool = False


@dataclass(frozen=True)
class Answer:
    """Rows, how to read them, and what they rest on.

    Attributes:
        title: a heading for people.
        rows: all columns, for machines.
        columns: column -> heading and display unit, for people.
        metrics: catalog names that the rows show.
        queries: named queries that the rows were read from.
        notes: notes on the rows, beneath the table.
        when_empty: why there are no rows, and what to do, if there are none.
        parameters: parameters of the queries besides the window.
        worth_showing: rows that a table shows; machines get all.
        drawn: rows that figures are made of, and that no table of a page has; None: there are none.
        instead: the sentence of a page for a row that is not worth showing, where a filter leaves no other; None: it
            shows the row.
        worth_explaining: rows of which `--explain` lists the parts of a number; those that are shown by default.
        headline: the answer in a sentence: a table begins with it.
        ranked: columns that a terminal shows first where not all fit, next to the first one.
        explained: columns that a terminal shows with `--explain` only, or where they are requested.
        in_words: columns as people read them without `--explain`, for instance without statistics words.
        order: how a table sorts the rows; None: not at all.
        brief: a shorter form of the rows for terminals, with its own columns; None: there is none.
        parts: for `--explain`: what the rows call the parts of a number (value, numerator, ...).
        details: for `--explain`: tables of the arithmetic behind the rows.
    """

    title: str
    rows: pl.DataFrame
    columns: dict[str, tuple[str, str]]
    metrics: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    when_empty: str = "Nothing in this window."
    parameters: dict[str, Any] = field(default_factory=dict)
    worth_showing: pl.Expr | None = None
    drawn: pl.Expr | None = None
    instead: pl.Expr | None = None
    worth_explaining: pl.Expr | None = None
    parts: dict[str, str] = field(default_factory=lambda: {name: name for name in PARTS})
    details: tuple[Details, ...] = ()
    headline: str = ""
    ranked: tuple[str, ...] = ()
    explained: tuple[str, ...] = ()
    in_words: tuple[pl.Expr, ...] = ()
    order: Order | None = None
    brief: Brief | None = None

    @property
    def shown(self) -> pl.DataFrame:
        """The rows that a person is shown."""
        return self.rows if self.worth_showing is None else self.rows.filter(self.worth_showing)


def with_values(rows: pl.DataFrame, columns: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """The columns that have a value in some row; all of them where there are no rows.

    >>> with_values(pl.DataFrame({"a": [1], "b": [None]}), {"a": ("a", "count"), "b": ("b", "count")})
    {'a': ('a', 'count')}
    """
    return {name: shown for name, shown in columns.items() if rows.is_empty() or rows[name].count()}


def noted(answer: Answer, notes: tuple[str, ...]) -> Answer:
    """An answer with more notes beneath it."""
    return replace(answer, notes=(*answer.notes, *notes))


def together(answers: list[Answer], windows: list[Window]) -> Answer:
    """One answer from those of several clusters."""
    first = answers[0]
    if len(answers) == 1:
        return first
    clusters = [window.cluster for window in windows]
    pairs = list(zip(clusters, answers, strict=True))
    return replace(
        first,
        rows=_side_by_side([(cluster, each.rows) for cluster, each in pairs]),
        columns=_with_cluster({name: shown for each in answers for name, shown in each.columns.items()}),
        notes=_notes_together(pairs),
        details=tuple(details for each in answers for details in each.details),
        headline="\n".join(
            _joined_by_cluster([(cluster, (each.headline,)) for cluster, each in pairs if each.headline])
        ),
        when_empty=_when_empty_together(pairs),
        brief=_briefs_together(pairs),
    )


def _notes_together(pairs: list[tuple[str, Answer]]) -> tuple[str, ...]:
    """The notes of several clusters; commands stay below their note."""
    blocks: list[tuple[str, tuple[str, ...]]] = []
    for cluster, answer in pairs:
        for note in answer.notes:
            if note.startswith("  ") and blocks and blocks[-1][0] == cluster:
                blocks[-1] = (cluster, (*blocks[-1][1], note))
            else:
                blocks.append((cluster, (note,)))
    return tuple(_joined_by_cluster(blocks))


def _when_empty_together(pairs: list[tuple[str, Answer]]) -> str:
    """Why there are no rows: of each cluster where the reasons differ."""
    if len({each.when_empty for _, each in pairs}) == 1:
        return pairs[0][1].when_empty
    return "\n".join(_joined_by_cluster([(cluster, (each.when_empty,)) for cluster, each in pairs]))


def _joined_by_cluster(lines_by_cluster: list[tuple[str, tuple[str, ...]]]) -> list[str]:
    """Lines about clusters, equal ones once, each with the names of its clusters.

    >>> _joined_by_cluster([("a", ("Too few.",)), ("a", ("Run:", "  it")), ("b", ("Too few.",))])
    ['a, b: Too few.', 'a: Run:', '  it']
    """
    of: dict[tuple[str, ...], dict[str, None]] = {}
    for cluster, lines in lines_by_cluster:
        of.setdefault(lines, {})[cluster] = None
    return [line for (first, *more), names in of.items() for line in (f"{shortened(list(names))}: {first}", *more)]


def _side_by_side(rows: list[tuple[str, pl.DataFrame]]) -> pl.DataFrame:
    """Rows of several clusters, each with its cluster."""
    named = (
        each if "cluster" in each.columns else each.select(pl.lit(cluster).alias("cluster"), pl.all())
        for cluster, each in rows
    )
    return pl.concat(list(named), how="diagonal_relaxed")


def _with_cluster(columns: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    named = {heading for heading, _ in columns.values()}
    return columns if "cluster" in named else {"cluster": ("cluster", "text")} | columns


def _briefs_together(pairs: list[tuple[str, Answer]]) -> Brief | None:
    briefs = [(cluster, each.brief) for cluster, each in pairs if each.brief is not None]
    if not briefs:
        return None
    return Brief(
        _side_by_side([(cluster, each.rows) for cluster, each in briefs]),
        _with_cluster(briefs[0][1].columns),
        briefs[0][1].below,
    )


def explain(source: Reader, answer: Answer, windows: list[Window]) -> dict[str, Any]:
    """What the numbers mean and rest on: definitions, SQL, parameters, evidence, constants."""
    from metrics import catalog  # noqa: PLC0415 - it imports all that computes a metric

    return {
        "metrics": [
            {
                "metric": metric.name,
                "summary": metric.summary,
                "definition": metric.formula,
                "unit": metric.unit,
                "interval": metric.interval,
                "source": readable(metric.source),
                "computed_by": metric.computed_by,
            }
            for metric in (catalog.BY_NAME[name] for name in answer.metrics)
        ],
        "numbers": _numbers(answer),
        "details": [{"title": each.title, "rows": each.rows.to_dicts()} for each in answer.details],
        "windows": [{"cluster": w.cluster, "since": iso(w.since), "until": iso(w.until)} for w in windows],
        "parameters": answer.parameters,
        "sql": {name: sql_files.named_queries()[name].sql for name in answer.queries},
        "constants": {w.cluster: computed_constants(source, w.cluster) for w in windows},
    }


def _numbers(answer: Answer) -> list[dict[str, Any]]:
    """The parts of each number: numerator, denominator, n, bounds, interval, evidence."""
    parts = {name: column for name, column in answer.parts.items() if column in answer.rows.columns}
    rows = answer.shown if answer.worth_explaining is None else answer.rows.filter(answer.worth_explaining)
    return rows.select(pl.col(column).alias(name) for name, column in parts.items()).to_dicts()
