"""The transport of a live ingest of Slurm: its commands on this machine, or slurmrestd, by the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.slurm.live import questions, rest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.slurm.live.questions import LiveRequest
    from ingest.slurm.settings import SlurmSettings


def by_rest(config: SlurmSettings) -> bool:
    """Whether slurmrestd is queried."""
    return config.slurm.transport == "rest"


def settings(config: SlurmSettings) -> LiveRequest:
    """The first request: it names the cluster."""
    return rest.settings() if by_rest(config) else questions.SETTINGS


def around(config: SlurmSettings) -> tuple[LiveRequest, ...]:
    """The requests besides accounting, in order."""
    return rest.around() if by_rest(config) else questions.PARTS


def accounting(config: SlurmSettings) -> LiveRequest:
    """The request that is repeated window by window."""
    return rest.accounting() if by_rest(config) else questions.accounting(config)


def by_id(config: SlurmSettings, job_ids: Sequence[str]) -> LiveRequest:
    """The request for single jobs, whenever they were."""
    return rest.by_id(job_ids) if by_rest(config) else questions.by_id(config, job_ids)
