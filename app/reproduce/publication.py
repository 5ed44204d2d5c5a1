"""What a publication brings: how its files become sources, and which of its numbers are compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from app.clusters import clusters
from app.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from app.reproduce.figure import Panel
    from queries.warehouse import Reader

ACCOUNTING: Final = "accounting.txt"
"""The file, in the folder of the result, with the accounting that a publication implies."""


@dataclass
class Sources:
    """Published files as Trackside's sources.

    Attributes:
        accounting: lines of `sacct -P` without the header: the jobs that the publication implies.
        run_logs: logs of training, with the facts that they do not record.
        left_out: what of the publication is not read, and why.
        facts: what else the publication records, for its comparison.
    """

    accounting: list[tuple[object, ...]] = field(default_factory=list)
    run_logs: list[tuple[Path, Mapping[str, Any]]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def accounting_text(self) -> str:
        """As `sacct -P` prints it."""
        rows = ("|".join(str(cell) for cell in row) for row in self.accounting)
        return "\n".join(["|".join(COLUMNS), *rows]) + "\n"


COLUMNS: Final = (
    *("JobIDRaw", "JobID", "Cluster", "User", "Account", "Partition", "JobName", "State", "ExitCode"),
    *("Submit", "Eligible", "Start", "End", "NNodes", "NodeList", "AllocTRES"),
)
"""Of the accounting that is made; times are seconds since 1970."""


class Comparison(NamedTuple):
    """A published number beside ours. `published` is None where the publication has none for these files.

    `decimals` are those of the published number; where they are stated, ours is compared when it is rounded like it.

    One without a unit is no number but a sentence: `quantity` is its subject, `explanation` the rest.
    """

    quantity: str
    unit: str
    published: float | None
    computed: float | None
    explanation: str = ""
    decimals: int | None = None

    @property
    def difference(self) -> float | None:
        """Ours minus the published one."""
        if self.published is None or self.computed is None:
            return None
        ours = self.computed if self.decimals is None else round(self.computed, self.decimals)
        return ours - self.published


@dataclass(frozen=True)
class Published:
    """What can be reproduced.

    Attributes:
        name: on the command line.
        title: what it is, in a line.
        origin: where people get the files, with the licence.
    """

    name: str
    title: str
    origin: str


@dataclass(frozen=True)
class TracePublication(Published):
    """A publication of traces, which are analysed as they are, without a warehouse.

    Attributes:
        compare: the published numbers and ours, and what of the path was not read, with the reason.
    """

    compare: Callable[[Path], tuple[list[Comparison], list[str]]]


@dataclass(frozen=True)
class Publication(Published):
    """A publication of jobs and runs, which become a warehouse.

    Attributes:
        read: the files below a path as sources.
        compare: the published numbers and ours, from the computed warehouse and what was read.
        claims: the claims on a cluster that are judged, as a claims file; empty if there are none.
        figure: what is drawn of a cluster's numbers; None: nothing.
    """

    read: Callable[[Path], Sources]
    compare: Callable[[Reader, Sources], list[Comparison]]
    claims: Callable[[Sources, str], str] = lambda _sources, _cluster: ""
    figure: Callable[[Reader, Window], list[Panel]] | None = None


def computed_windows(reader: Reader) -> list[Window]:
    """The computed interval of each cluster, by name."""
    every = (reader.query("computed", cluster=cluster).row(0, named=True) for cluster in clusters(reader))
    return [Window(row["cluster"], row["since"], row["until"]) for row in every]
