"""The three tiers of tests, and which of them a run leaves out: what is left out is reported once, at the end.

    make test            each test that needs no real component and less than about a second
    make test SLOW=1     and those marked `slow`, of seconds: many kills, many loads in any order, days of telemetry
    make test REAL=1     and those with real Slurm, Prometheus, VictoriaMetrics, Chromium: nothing is skipped

Of a property's random examples `make test` and `make test REAL=1` take a quarter; `make test SLOW=1` takes all,
and `make fuzz` new ones.

The Makefile passes the tier in `TRACKSIDE_TEST_TIER`. Without it (`pytest PATH`) all is run that the machine has
components for.
"""

from __future__ import annotations

import os
from typing import Any, Final

import pytest
from hypothesis import settings

FAST: Final = "fast"
SLOW: Final = "slow"
REAL: Final = "real"

FEWEST_EXAMPLES: Final = 10

SHARES: Final = {FAST: 4, REAL: 4}
"""One of so many random examples is taken: they are the same in each run, and `make fuzz` looks for new ones."""

_LEFT_OUT: Final = {
    "slow": (frozenset({FAST}), "slow; run it with: make test SLOW=1"),
    "lab": (frozenset({FAST, SLOW}), "real Slurm; run it with: make test REAL=1"),
}
"""By marker: the tiers that leave its tests out, and the reason as it is reported."""


def tier() -> str | None:
    """The tier of this run; None: whatever the machine can run."""
    return os.environ.get("TRACKSIDE_TEST_TIER") or None


def real_components_wanted() -> bool:
    """Whether tests may start real components."""
    return tier() in {None, REAL}


def leave_out(items: list[pytest.Item]) -> None:
    """Skip the tests of the other tiers, and have them run last, so that the first results are no skips."""
    for marker, (tiers, reason) in _LEFT_OUT.items():
        if tier() in tiers:
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(pytest.mark.skip(reason=reason))
    items.sort(key=lambda item: item.get_closest_marker("skip") is not None)


def take_fewer_examples(items: list[pytest.Item]) -> None:
    """Take the first part of a property's random examples that is the tier's, but not fewer than ten.

    A property that asks for fewer than ten keeps its number. The examples of `@example` are always taken.
    """
    share = SHARES.get(tier() or "", 1)
    if share == 1:
        return
    functions: dict[int, Any] = {id(each): each for each in (getattr(item, "obj", None) for item in items)}
    for function in functions.values():
        if not getattr(function, "is_hypothesis_test", False):
            continue
        own = function._hypothesis_internal_use_settings  # noqa: SLF001 - no public way after @given
        few = min(own.max_examples, max(FEWEST_EXAMPLES, own.max_examples // share))
        function._hypothesis_internal_use_settings = settings(own, max_examples=few)  # noqa: SLF001 - as above
