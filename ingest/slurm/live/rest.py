"""Requests to slurmrestd in place of commands (`[slurm] transport = "rest"`): accounting, inventory, cluster name.

Node events, the settings that restart times depend on, topology, associations and the rest are not in slurmrestd, or
not in JSON that is read: they come from commands or files.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from ingest.load_warnings import LoadWarning
from ingest.slurm.commands.slurmrestd import Client, RestTransport
from ingest.slurm.live.questions import LiveRequest, requested_window
from ingest.slurm.live.recheck import without_time
from ingest.slurm.load_files import close_states_at_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.slurm.settings import SlurmSettings


def connect(config: SlurmSettings) -> RestTransport:
    """The slurmrestd of the configuration, with the token that the environment has now.

    Raises:
        ServerDownError: Its address or the token cannot be used.
    """
    slurm = config.slurm
    return RestTransport(
        Client(
            slurm.rest_url or "",
            version=slurm.rest_version,
            user=slurm.rest_user,
            token=os.environ.get(slurm.rest_token_env) or None,
            timeout_s=slurm.timeout_s,
        )
    )


def settings() -> LiveRequest:
    """The first request: it names the cluster."""
    return LiveRequest(
        "slurmrestd clusters",
        "slurm.config",
        lambda request: connect(request.config).settings(),
        "slurmdbd",
        needed=True,
        transport="rest",
        finish=lambda parsed, _: replace(parsed, warnings=[*parsed.warnings, LoadWarning("no_events_by_rest")]),
    )


def around() -> tuple[LiveRequest, ...]:
    """The requests besides accounting."""
    return (
        LiveRequest(
            "slurmrestd nodes",
            "slurm.nodes",
            lambda request: connect(request.config).nodes(),
            "slurmctld",
            needed=True,
            transport="rest",
            finish=lambda parsed, _: close_states_at_snapshot(parsed),
        ),
        LiveRequest(
            "slurmrestd reservations",
            "slurm.reservations",
            lambda request: connect(request.config).reservations(),
            "slurmctld",
            transport="rest",
        ),
    )


def accounting() -> LiveRequest:
    """The request that is repeated window by window."""
    return LiveRequest(
        "slurmrestd jobs",
        "slurm.accounting",
        lambda request: connect(request.config).accounting(request.since, request.until),
        "slurmdbd",
        needed=True,
        transport="rest",
        window=requested_window,
    )


def by_id(job_ids: Sequence[str]) -> LiveRequest:
    """The request for single jobs, whenever they were."""
    return LiveRequest(
        "slurmrestd job",
        "slurm.accounting",
        lambda request: connect(request.config).jobs(job_ids),
        "slurmdbd",
        passes_window=False,
        transport="rest",
        finish=lambda parsed, _: without_time(parsed),
    )
