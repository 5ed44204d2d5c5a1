"""Run logs and logs of other formats that are at hand as a whole, read as the loader reads them in chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ingest.runlog.columns import lines_of
from ingest.runlog.formats.registry import chunks_of_run_log
from ingest.runlog.parse import read_runlog
from ingest.runlog.steps import merge_steps
from ingest.runlog.translation import Findings, LogRequest
from ingest.tables import STEPS, empty

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ingest.tables import Parsed


def as_run_log(data: bytes, name: str, facts: Mapping[str, Any]) -> bytes:
    """A log of any format as a run log: as `chunks_of_run_log`, of a log that is at hand as a whole.

    Raises:
        InputError: as there.
    """
    chunks = chunks_of_run_log([data], name, LogRequest(facts), Findings())
    return b"".join(chunk if isinstance(chunk, bytes) else lines_of(chunk) for chunk in chunks)


def parse_runlog(
    data: bytes,
    *,
    origin: str = "input",
    cluster: str | None = None,
    cluster_of_jobs: str | None = None,
    now: datetime | None = None,
) -> Parsed:
    """Read a run log that is at hand as a whole: see `read_runlog`.

    Returns:
        `run_sessions`, `steps` and `run_events`; what was refused, with line numbers.
    """
    log = read_runlog([data], origin=origin, cluster=cluster, cluster_of_jobs=cluster_of_jobs, now=now)
    days = [rows for _, _, rows in log.days()]
    steps = merge_steps(pl.concat(days)) if days else empty(STEPS)
    return log.parsed(steps.height, steps)
