"""Which road a live ingest of Slurm takes: its commands on this machine, or slurmrestd. A matter of configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app import live_parts, live_rest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.config.settings import Config
    from app.live_parts import Part


def by_rest(config: Config) -> bool:
    """Whether slurmrestd is asked."""
    return config.slurm.road == "rest"


def settings(config: Config) -> Part:
    """Asked first: it names the cluster."""
    return live_rest.settings() if by_rest(config) else live_parts.SETTINGS


def around(config: Config) -> tuple[Part, ...]:
    """What is asked besides accounting, in order."""
    return live_rest.around() if by_rest(config) else live_parts.PARTS


def accounting(config: Config) -> Part:
    """The part that is asked window by window."""
    return live_rest.accounting() if by_rest(config) else live_parts.accounting(config)


def by_id(config: Config, job_ids: Sequence[str]) -> Part:
    """The part that asks for single jobs, whenever they were."""
    return live_rest.by_id(job_ids) if by_rest(config) else live_parts.by_id(config, job_ids)
