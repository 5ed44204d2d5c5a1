"""A published metric: what it is called, what it means, where its definition comes from, where it is shown.

Each entry is below the function that computes the metric, in `METRICS` of its module; `metrics.catalog` collects
them. The command line, the reference, the explorer, reports, boards, the exporter and claims read the entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

BOUNDS = "bounds: unattributed and assumed time counted all unproductive (low) and all productive (high)"
"""Form of the uncertainty of a share of GPU-time."""

UNSEEN_BOUNDS = "lower and upper: all unobserved time counted unproductive and productive"
"""The same in the help of an exported family."""


@dataclass(frozen=True)
class Parts:
    """Numerator and denominator of a metric, in words.

    Attributes:
        unit: of both: `gpu_h` (the values are GPU-seconds) or `flop`.
        numerator: what is above the line.
        denominator: what is below it, with its unit.
    """

    unit: Literal["gpu_h", "flop"]
    numerator: str
    denominator: str


@dataclass(frozen=True)
class Claimable:
    """Rules by which a claim on a metric is judged.

    Attributes:
        method: name of the method of `app.claims.measure` that measures it.
        of: what it is made of, which decides what the claim's scope may name.
        fields: fields of a claim that apply to few metrics, and to this one.
        categories: whether it is made of the ledger's categories, so that a claim can leave one out.
        required: those of `fields` that every claim on it must state.
        exclusions: whether a claim can leave out intervals.
    """

    method: str
    of: Literal["gpu_time", "capacity", "runs", "attempts"]
    fields: tuple[str, ...] = ()
    categories: bool = True
    required: tuple[str, ...] = ()
    exclusions: bool = True


@dataclass(frozen=True)
class ExportedFamily:
    """The family of `/metrics` in which a headline ratio is exported.

    Attributes:
        family: its name without the prefix.
        help: what the family is, in one sentence; empty where another metric of the family has it.
        labels: names and values of the labels between `window` and `bound`.
        bounds: whether the family has a label `bound`, and so the bounds or the interval in addition to the value.
    """

    family: str
    help: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    bounds: bool = True


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A published number.

    Attributes:
        name: as in the column `metric`, and in claims.
        unit: of its value.
        summary: one sentence for a table of contents.
        formula: numerator over denominator, in the words of the data dictionary.
        query: the named query whose rows it is computed from.
        function: the arithmetic; None where the query itself is.
        interval: how uncertainty is given.
        source: publication, or `our definitions 4.3`: a section of a document that is not in the repository.
            Readers see a page of the manual in its place (`app.results.references`).
        title: for people; its name in words where nothing else is given.
        show: the question of `trackside show` that it is in.
        by: what its result rows can be split by, apart from the cluster.
        parts: what its numerator and denominator are.
        better: which values are the good ones.
        headline: its place among the headline numbers; None where it is none of them.
        claim: how claims on it are judged; None where none can be made.
        exported: where `/metrics` has its value and bounds, of a headline number; None where it has none of them.
        judged: whether the fleet board has a panel of it that is coloured by the targets of claims.
    """

    name: str
    unit: str
    summary: str
    formula: str
    query: str
    function: Callable[..., object] | None
    interval: str
    source: str
    title: str = ""
    show: str = ""
    by: tuple[str, ...] = ()
    parts: Parts | None = None
    better: Literal["higher", "lower"] = "higher"
    headline: int | None = None
    claim: Claimable | None = None
    exported: ExportedFamily | None = None
    judged: bool = False

    def __post_init__(self) -> None:
        """Fill in the title."""
        if not self.title:
            object.__setattr__(self, "title", _in_words(self.name))

    @property
    def computed_by(self) -> str:
        """Place of the arithmetic, for readers who check it."""
        if self.function is None:
            return f"the named query {self.query}"
        return f"{self.function.__module__}.{self.function.__qualname__}"


_ABBREVIATIONS = frozenset({"ettr", "gpu", "mfu", "mpg", "mttf"})


def _in_words(name: str) -> str:
    """A metric's name for people.

    >>> _in_words("lost_imputed"), _in_words("mfu_wall"), _in_words("ettr_mean_of_runs")
    ('Lost imputed', 'MFU wall', 'ETTR mean of runs')
    """
    words = [word.upper() if word in _ABBREVIATIONS else word for word in name.split("_")]
    return " ".join((words[0] if words[0].isupper() else words[0].capitalize(), *words[1:]))
