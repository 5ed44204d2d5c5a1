"""Which examples Hypothesis takes: the same everywhere in `make test`, others in each run of `make fuzz`.

Loaded by tests/conftest.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

FINDINGS: Final = Path(os.environ.get("TRACKSIDE_FUZZ_FINDINGS", Path(__file__).parents[2] / "fuzz-findings"))
"""Where `make fuzz` keeps what it finds; not in git."""

SECONDS: Final = "TRACKSIDE_FUZZ_SECONDS"
SEED: Final = "TRACKSIDE_FUZZ_SEED"
"""Set by `make fuzz` for the processes that it starts."""

settings.register_profile(
    "same",
    derandomize=True,  # the examples follow from the test's own text
    database=None,
    deadline=None,
    max_examples=100,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no fault
)
settings.register_profile(
    "fuzz",
    database=DirectoryBasedExampleDatabase(FINDINGS / "examples"),
    deadline=None,
    max_examples=10_000_000,  # the plugin stops each property when its share of the time is over
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def fuzzing() -> bool:
    """Whether `make fuzz` started this process."""
    return SECONDS in os.environ


def load() -> None:
    """Choose the profile, before any property is imported."""
    settings.load_profile("fuzz" if fuzzing() else "same")
    if not fuzzing():
        _ignore_constants_of_imported_modules()


def _ignore_constants_of_imported_modules() -> None:
    """Hypothesis also draws the constants of all local modules imported so far: these depend on the order of tests."""
    none = Constants()
    providers._get_local_constants = lambda: none  # noqa: SLF001 - no setting switches it off
