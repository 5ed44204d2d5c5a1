"""Trackside from Python: the questions of `trackside show` as polars frames, SQL, and what a number rests on.

`import trackside` gives `open` and `Warehouse`. The methods of `Warehouse` that answer questions are made from the
questions' own entries (`app.show`), so that a new question is here, too; `python -m app.docgen` writes their
signatures into `app/wheel/trackside/warehouse.pyi`, for editors and type checkers.
"""

from __future__ import annotations

import inspect
import warnings
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.clusters import clusters
from app.config import settings
from app.errors import UsageError
from app.periods import Period, windows
from app.show import metric
from app.show.answer import Answer, Question, explain
from app.show.registry import QuestionEntry, question_of, questions
from app.show.run_question import run_question
from queries.opening import use_engine
from queries.sandbox.run import SandboxLimits, user_sql
from queries.warehouse import open_reader

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from app.window import Window
    from queries.warehouse import Reader

Moment = str | date | datetime | None
"""A time in UTC: `2026-10-01`, `7d` (before the end of the data), a date, a datetime; None: as far as the data go."""

QUESTIONS: Final = questions()
"""Every question by its name."""


class TracksideWarning(UserWarning):
    """Warning about the data behind a number: gaps, loads that are not computed yet, cut results."""


class Warehouse:
    """A warehouse directory, opened for questions.

    Every question of `trackside show` is a method that returns the same rows: all columns, ratios from 0 to 1, times
    in UTC, durations in seconds. A method opens the published copy and closes it again, so it may run next to writers.
    """

    def __init__(self, folder: str | Path | None = None, *, config: str | Path | None = None) -> None:
        """Open a warehouse.

        Args:
            folder: the warehouse directory; by default $TRACKSIDE_WAREHOUSE, else what the configuration names.
            config: the configuration file; by default $TRACKSIDE_CONFIG, else ./trackside.toml.

        Raises:
            ConfigError: the configuration has mistakes; the message lists every one.
            NoWarehouseError: there is no warehouse in the directory.
        """
        self._config = None if config is None else Path(config)
        self._settings = settings.load(self._config)
        use_engine(self._settings.engine.chosen)
        self.folder = self._settings.warehouse if folder is None else Path(folder)
        with open_reader(self.folder):
            pass

    def __repr__(self) -> str:
        return f"trackside.open({str(self.folder)!r})"

    @property
    def questions(self) -> tuple[str, ...]:
        """Names of the questions; each is a method, too."""
        return tuple(QUESTIONS)

    @property
    def clusters(self) -> tuple[str, ...]:
        """Names of the clusters that data are loaded of."""
        with open_reader(self.folder) as reader:
            return tuple(clusters(reader))

    def ask(self, question: str, **options: Any) -> Answer:  # noqa: ANN401 - as the question's method takes them
        """The answer to a question, with what its rows do not have: title, notes, metrics, queries.

        Args:
            question: its name, one of `questions` or of `metrics`.
            options: as the question's method takes them.

        Raises:
            UsageError: there is no such question, cluster or period, or the question does not take an option's value.
        """
        with open_reader(self.folder) as reader:
            return self._answer(reader, question, options)[0]

    def explain(self, question: str, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
        """Meaning and evidence of an answer's numbers: definitions, parts, SQL, parameters, evidence, constants.

        Args:
            question: its name, one of `questions` or of `metrics`.
            options: as the question's method takes them.

        Raises:
            UsageError: as `ask`.
        """
        with open_reader(self.folder) as reader:
            return explain(reader, *self._answer(reader, question, options))

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the published metrics that `metric` returns."""
        return tuple(metric.questions())

    def metric(
        self,
        name: str,
        *,
        cluster: str | None = None,
        since: Moment = None,
        until: Moment = None,
        by: str | None = None,
    ) -> pl.DataFrame:
        """The result rows of a published metric, as `trackside show METRIC` returns them.

        Args:
            name: the metric, one of `metrics`.
            cluster: only this cluster; by default every cluster.
            since: from this time on (UTC).
            until: to this time (UTC), not included.
            by: what to split by; the manual's page of metrics lists what each metric takes.

        Raises:
            UsageError: there is no such metric, cluster or period, or the metric cannot be split by that.
        """
        return self.ask(name, cluster=cluster, since=since, until=until, by=by).rows

    def sql(self, select: str) -> pl.DataFrame:
        """The rows of one SELECT on the published copy, run in the sandbox of `trackside sql`.

        A result with more rows than the configuration allows (`sql.rows`) is cut, with a `TracksideWarning`.

        Raises:
            QueryError: the text is not one SELECT, or it failed, or it took more time or memory than allowed.
        """
        allowed = self._settings.sql
        limits = SandboxLimits(allowed.rows, allowed.seconds, allowed.memory_mb, allowed.result_mb)
        rows, more = user_sql(self.folder, select, limits)
        if more:
            _warn(f"only the first {rows.height:,} rows are returned (config: sql.rows, sql.result_mb)")
        return rows

    def _answer(self, reader: Reader, name: str, options: dict[str, Any]) -> tuple[Answer, list[Window]]:
        if name not in QUESTIONS and name not in self.metrics:
            raise UsageError(f"there is no question {name!r}; there are: {', '.join((*QUESTIONS, *self.metrics))}")
        entry = question_of(name)
        arguments = signature_of(entry).bind(self, **options).arguments
        by = arguments.get("by")
        if by is not None and by not in entry.splits:
            raise UsageError(f"{name} cannot be split by {by!r}; by takes: {', '.join(entry.splits)}")
        period = Period(
            cluster=arguments.get("cluster"), since=_text(arguments.get("since")), until=_text(arguments.get("until"))
        )
        question = Question(
            by=by,
            run=arguments.get("run"),
            at=arguments.get("at"),
            convention=arguments.get("convention"),
            config=self._config,
        )
        return run_question(
            reader, windows(reader, period, span=entry.span, report=_warn), entry, question, report=_warn
        )


def signature_of(entry: QuestionEntry) -> inspect.Signature:
    """The signature of a question's method: cluster and period, and the options that the question takes."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    parameters += [
        inspect.Parameter(option, keyword, default=None, annotation=annotation)
        for option, annotation in _options_of(entry).items()
    ]
    return inspect.Signature(parameters, return_annotation="pl.DataFrame")


def _options_of(entry: QuestionEntry) -> dict[str, str]:
    """The options of a question's method, and their types."""
    options = {"cluster": "str | None", "since": "Moment", "until": "Moment"}
    if entry.splits:
        splits = ", ".join(f'"{each}"' for each in entry.splits)
        options["by"] = f"Literal[{splits}] | None"
    return options | {option: _TYPES[option] for option in entry.takes}


_PACKAGE: Final = str(Path(__file__).parent)

_TYPES: Final = {"run": "str | None", "at": "float | None", "convention": "str | None"}

_DESCRIBED: Final = {
    "cluster": "only this cluster; by default every cluster.",
    "since": "from this time on (UTC): `2026-10-01`, `7d` before the end of the data, a date or a datetime.",
    "until": "to this time (UTC), not included; by default the end of the data.",
    "by": "what to split by.",
    "run": "only this run: a run id, a job id or a run's name.",
    "at": "the job size, in GPUs, for which the rate is scaled.",
    "convention": "the FLOP convention: `palm_full`, `causal_half`, ...",
}


def documentation_of(entry: QuestionEntry) -> str:
    """The docstring of a question's method."""
    lines = [entry.summary[:1].upper() + entry.summary[1:] + ".", "", "Args:"]
    lines += [f"    {option}: {_DESCRIBED[option]}" for option in _options_of(entry)]
    lines += [
        "",
        "Raises:",
        "    UsageError: there is no such cluster, period or run, or no data for the request.",
    ]
    return "\n".join(lines)


def _method(name: str) -> Callable[..., pl.DataFrame]:
    def method(self: Warehouse, **options: Any) -> pl.DataFrame:  # noqa: ANN401 - its signature is set below
        return self.ask(name, **options).rows

    method.__name__, method.__qualname__ = name, f"Warehouse.{name}"
    method.__doc__, method.__signature__ = documentation_of(QUESTIONS[name]), signature_of(QUESTIONS[name])  # type: ignore[attr-defined]  # inspect reads it
    return method


def _text(moment: Moment) -> str | None:
    """A time as the command line takes it."""
    return moment.isoformat() if isinstance(moment, date) else moment


def _warn(message: str) -> None:
    """A warning that names the line of the caller, however deep in this package the reason was found."""
    depth, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, TracksideWarning, stacklevel=depth)


for _name in QUESTIONS:
    setattr(Warehouse, _name, _method(_name))
