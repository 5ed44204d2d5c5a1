"""The metrics that Trackside publishes, collected from the modules that compute them.

There is no list to keep: a module of a topic package (`metrics/<topic>/`) that has `METRICS` is in it.
"""

from __future__ import annotations

import importlib
import math
import pkgutil

import metrics
from metrics.metric import Claimable, Metric

__all__ = ["BY_NAME", "CLAIMABLE", "METRICS", "Claimable", "Metric"]


def _collect() -> tuple[Metric, ...]:
    """The entries of every topic: those with headline numbers first, in the order of these."""
    topics = [_of_topic(module.name) for module in pkgutil.iter_modules(metrics.__path__, "metrics.") if module.ispkg]
    return tuple(metric for topic in sorted(topics, key=lambda topic: _place(topic[:1])) for metric in topic)


def _of_topic(package: str) -> list[Metric]:
    """The entries of a topic's modules, headline numbers first."""
    names = [module.name for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")]
    entries = [metric for name in names for metric in getattr(importlib.import_module(name), "METRICS", ())]
    return sorted(entries, key=lambda metric: _place([metric]))


def _place(entries: list[Metric]) -> float:
    return math.inf if not entries or entries[0].headline is None else entries[0].headline


METRICS: tuple[Metric, ...] = _collect()
BY_NAME = {metric.name: metric for metric in METRICS}
CLAIMABLE = {metric.name: metric.claim for metric in METRICS if metric.claim is not None}
