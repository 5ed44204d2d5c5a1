"""The publications that can be reproduced: every module of this package with a `PUBLICATION`."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

import app.reproduce as package
from app.errors import UsageError
from app.reproduce import mlperf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.reproduce.publication import Publication, TracePublication


def publications() -> dict[str, Publication | TracePublication]:
    """All of them, by name."""
    modules = (import_module(f"{package.__name__}.{one.name}") for one in pkgutil.iter_modules(package.__path__))
    every = [module.PUBLICATION for module in modules if hasattr(module, "PUBLICATION")]
    return {one.name: one for one in sorted(every, key=lambda each: each.name)}


def publication(name: str, dtype: str | None = None, benchmarks: Sequence[str] = ()) -> Publication | TracePublication:
    """The publication of that name; of MLPerf any round (`mlperf-v5.1`), of which a data type may be stated.

    Raises:
        UsageError: there is none, or it has neither data type nor benchmarks.
    """
    every = publications()
    stated = dtype is not None or benchmarks
    if (stated or name not in every) and (alike := mlperf.publication_of(name, dtype, benchmarks)) is not None:
        return alike
    if name in every and dtype is not None:
        raise UsageError(f"--dtype is of training: {name} has no data type; leave it out")
    if name in every and benchmarks:
        raise UsageError(f"--benchmark is of MLPerf: {name} has no benchmarks; leave it out")
    if name not in every:
        raise UsageError(f"there is no publication {name!r}; there are: {', '.join(every)}")
    return every[name]
