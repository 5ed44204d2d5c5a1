"""Google's ml-goodput-measurement (PyPI, a test-only dependency), driven without its cloud clients: the oracle."""

from __future__ import annotations

import datetime as dt
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CLOUD = (
    "google",
    "google.cloud",
    "google.cloud.logging",
    "google.cloud.storage",
    "google.cloud.monitoring_v3",
    "google.api_core",
    "google.api_core.exceptions",
)
PACKAGE = "ml_goodput_measurement"
ORIGIN = 1_790_000_000.0
"""Second zero of the logs: the library refuses times near 1970."""

Entry = dict[str, Any]


def library() -> ModuleType:
    """The library's module `goodput`, without the clients that its package would import."""
    spec = find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations
    (home,) = spec.submodule_search_locations
    stubs = {name: ModuleType(name) for name in CLOUD}
    stubs["google.cloud.logging"].Client = stubs["google.cloud.storage"].Client = object  # type: ignore[attr-defined]  # a stub
    for name, module in stubs.items():
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(stubs[parent], own, module)
    for name, path in ((PACKAGE, home), (f"{PACKAGE}.src", f"{home}/src")):
        stubs[name] = ModuleType(name)
        stubs[name].__path__ = [path]
    with patch.dict(sys.modules, stubs):
        found = import_module(f"{PACKAGE}.src.goodput")
        others = {name: each for name, each in sys.modules.items() if name.partition(".")[0] not in {"google", PACKAGE}}
    sys.modules.update(others)  # parts of numpy cannot be imported twice
    return found


class _Recorded:
    """What the library asks its cloud for: entries that are there already."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = list(entries)

    def read_cloud_logging_entries(self, **_: object) -> tuple[list[Entry], None]:
        return self._entries, None


def told(goodput: ModuleType, entries: Sequence[Entry], *, now: float, folder: Path, name: str) -> dict[str, Any]:
    """Goodput (percent), seconds by bucket in lower case, highest step and disruptions, as the library has them.

    Raises:
        ValueError: the library refuses the log.
    """

    class Frozen(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]  # a test's clock
            return dt.datetime.fromtimestamp(ORIGIN + now, tz)

    clock = SimpleNamespace(datetime=Frozen, timezone=dt.timezone, timedelta=dt.timedelta)
    with patch.object(goodput, "datetime", clock), patch.object(goodput.logging, "warning"):
        calculator = goodput.GoodputCalculator(name, "log", _Recorded(entries), cache_dir=str(folder))
        percent, _, highest = calculator.get_job_goodput(include_badput_breakdown=True)
        info = calculator._goodput_cache.get_goodput_info()  # noqa: SLF001 - where the seconds are
    buckets: dict[str, float] = {}
    for kind, seconds in info.total_unproductive_time.items():
        parts = seconds if isinstance(seconds, dict) else {kind.name: seconds}
        for part, amount in parts.items():
            buckets[part.lower()] = buckets.get(part.lower(), 0.0) + amount
    return {
        "percent": percent,
        "productive_s": info.total_productive_time,
        "buckets": {part: amount for part, amount in buckets.items() if amount > 0},
        "highest": highest,
        "disruptions": info.number_of_disruptions,
    }


def job_start(when: float) -> Entry:
    return {"job_start_time": ORIGIN + when}


def job_end(when: float) -> Entry:
    return {"job_end_time": ORIGIN + when}


def step(number: int, when: float) -> Entry:
    return {"step_count": number, "step_start_time": ORIGIN + when}


_SPANS = {"init": "tpu_init", "compile": "training_prep", "data": "data_loading"}


def span(kind: str, begin: float, end: float) -> list[tuple[float, Entry]]:
    """An event's two entries with their times."""
    if kind in _SPANS:
        return [
            (begin, {f"{_SPANS[kind]}_start_time": ORIGIN + begin}),
            (end, {f"{_SPANS[kind]}_end_time": ORIGIN + end}),
        ]
    both = "custom_badput_event"
    return [
        (begin, {f"{both}_type": kind, f"{both}_start_time": ORIGIN + begin}),
        (end, {f"{both}_type": kind, f"{both}_end_time": ORIGIN + end}),
    ]


def checkpoint(event_type: str, number: int, seconds: float) -> Entry:
    """A save or restore with its length, as Orbax logs it."""
    lengths = ("wait_for_prev_duration_secs", "checkpointer_blocking_duration_secs", "checkpointer_duration_secs",
               "get_old_steps_duration_secs")  # fmt: skip
    return {"event_type": event_type, "step": number, "directory": "gs://bucket/run"} | dict.fromkeys(lengths, 0.0) | {
        "checkpoint_manager_blocking_duration_secs": seconds,
        "checkpoint_manager_duration_secs": seconds,
    }  # fmt: skip
