"""Values stated on the command line for files of ranks that do not record them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True)
class Stated:
    """Facts that a log of a framework, or a trace, does not record about itself.

    Attributes:
        run_id: the run; None: the file's name, without its endings.
        job_id: the scheduler's id of its job; None: no known job.
        timezone: zone of times that carry none; None: unknown.
        begin: when a trace begins whose times count from 0; None: unknown.
    """

    run_id: str | None = None
    job_id: str | None = None
    timezone: str | None = None
    begin: datetime | None = None

    @property
    def session(self) -> str:
        """The session, as rank times name it."""
        return "" if self.job_id is None else f"{self.job_id}.0"

    @property
    def scheduler(self) -> str:
        """The scheduler of the job."""
        return "none" if self.job_id is None else "slurm"
