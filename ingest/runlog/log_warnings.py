"""Warnings about a run log as a whole: impossible values of steps, steps back in time, no rank 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingest.counted import counted
from ingest.load_warnings import LoadWarning
from ingest.plausible import RUN_LOG

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@dataclass
class Implausible:
    """Impossible values of the steps: their number, and the place of the first."""

    count: int
    line: int
    value: float


def warnings_of(
    *,
    implausible: Mapping[str, Implausible],
    n_backwards: int,
    n_losses: int,
    skipped_ranks: Collection[int],
    not_taken: Collection[str] = (),
) -> list[LoadWarning]:
    """The warnings of a log.

    Args:
        implausible: impossible values, by name of the column.
        n_backwards: steps that begin before the one before them: the clock was set.
        n_losses: losses that are no number.
        skipped_ranks: the ranks of the log, where lines of these were skipped and none is of rank 0; else none.
        not_taken: stated facts that the log records itself.
    """
    warnings: list[LoadWarning] = []
    for name in [name for name in ("tokens", "loss") if name in implausible]:
        found, bound = implausible[name], RUN_LOG[name]
        detail = (
            f"{counted(found.count, 'step')} with an impossible {name} (the first in line {found.line}: "
            f"{found.value:g}; at most {bound.most:g}: {bound.why}); such a step counts, without this value"
        )
        warnings.append(LoadWarning("steps_implausible", found.count, detail))
    if n_backwards:
        warnings.append(LoadWarning("steps_backwards", n_backwards))
    if n_losses:
        warnings.append(LoadWarning("losses_not_numbers", n_losses))
    if skipped_ranks:
        warnings.append(LoadWarning("no_rank_0", None, str(min(skipped_ranks))))
    if not_taken:
        warnings.append(LoadWarning("stated_not_taken", None, ", ".join(sorted(not_taken))))
    return warnings
