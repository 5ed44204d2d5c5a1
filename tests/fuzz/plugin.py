"""For pytest, in a process of `make fuzz`: properties only, each until its share of the time is over."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import seed as with_seed
from hypothesis import settings
from hypothesis.internal.conjecture.engine import ConjectureRunner, ExitReason

from tests.fuzz import profiles
from tests.fuzz.targets import TARGETS, targets_of_modules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.internal.conjecture.data import ConjectureData


class Explorer:
    """Shares out the time that is left, and stops each property when its share is over."""

    def __init__(self, seconds: float, seed: int) -> None:
        self.deadline = time.monotonic() + seconds
        self.until = self.deadline
        """When the share of the property that runs now is over."""
        self.seed = seed
        self.left = 0.0
        """The weights of the properties that have not run yet."""
        self.weights: dict[str, float] = {}

    def plan(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """The properties among these, in an order by the seed; notes the weight of each."""
        properties = sorted((item for item in items if is_property(item)), key=lambda item: item.nodeid)
        random.Random(self.seed).shuffle(properties)
        modules = targets_of_modules()
        of = {item.path: modules.get(item.path, TARGETS[-1]) for item in properties}
        many = {target.name: sum(of[item.path] == target for item in properties) for target in of.values()}
        self.weights = {item.nodeid: of[item.path].weight / many[of[item.path].name] for item in properties}
        self.left = sum(self.weights.values())
        return properties

    def prepare(self, item: pytest.Item) -> None:
        """Give a property its own seed, no limit on examples, and its share of what is left of the time."""
        weight = self.weights[item.nodeid]
        now = time.monotonic()
        self.until = now + max(0.0, self.deadline - now) * weight / self.left
        self.left -= weight
        function = function_of(item)
        with_seed(f"{self.seed} {item.nodeid}")(function)
        function._hypothesis_internal_use_settings = unlimited(function)  # noqa: SLF001 - no public way after @given


def function_of(item: pytest.Item) -> Any:
    """The function that Hypothesis wrapped."""
    return getattr(item, "obj", None)


def is_property(item: pytest.Item) -> bool:
    """Whether Hypothesis gives its examples."""
    return getattr(function_of(item), "is_hypothesis_test", False)


def unlimited(function: Any) -> settings:
    """The settings of a property without its own limits."""
    default = settings.get_profile("fuzz")
    return settings(
        function._hypothesis_internal_use_settings,  # noqa: SLF001 - as above
        max_examples=default.max_examples,
        database=default.database,
        deadline=None,
        derandomize=False,
    )


def stop_at(explorer: Explorer) -> None:
    """Have Hypothesis end a property when its share is over, unless it is simplifying a failing example."""
    run_one = ConjectureRunner.test_function

    def run_one_in_time(runner: ConjectureRunner, data: ConjectureData) -> None:
        over = time.monotonic() > explorer.until
        if over and runner.valid_test_cases and not runner.interesting_test_cases:
            runner.exit_with(ExitReason.max_examples)
        run_one(runner, data)

    ConjectureRunner.test_function = run_one_in_time  # type: ignore[method-assign, assignment]  # no public way


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count the time."""
    profiles.load()
    explorer = Explorer(float(os.environ[profiles.SECONDS]), int(os.environ[profiles.SEED]))
    stop_at(explorer)
    config.pluginmanager.register(Hooks(explorer), "trackside-fuzz")


class Hooks:
    """What pytest calls."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Properties only."""
        items[:] = self.explorer.plan(items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Each for its share."""
        self.explorer.prepare(item)
        return (yield)
