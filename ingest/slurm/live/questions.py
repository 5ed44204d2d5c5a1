"""The requests to a running Slurm besides accounting: a list of parts, with the use of each response.

Every live ingest reads all of them. A new one needs its command here, and a parser in `ingest.slurm.parsers`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal

from ingest.context import ParseContext
from ingest.load_warnings import LoadWarning
from ingest.slurm.accounting.sacct import fetch_accounting
from ingest.slurm.accounting.sacct_by_id import fetch_jobs
from ingest.slurm.live.recheck import without_time
from ingest.slurm.load_files import close_states_at_snapshot
from ingest.slurm.nodes.inventory import (
    fetch_events,
    fetch_nodes,
    fetch_reservation_history,
    fetch_reservations,
    fetch_settings,
    fetch_topology,
)
from ingest.slurm.parsers import SNAPSHOTS, parse
from ingest.slurm.people.associations import fetch_associations, fetch_qos, fetch_users
from ingest.slurm.people.transactions import fetch_transactions, of_cluster
from ingest.slurm.scheduler.runaway import fetch_runaway
from ingest.slurm.scheduler.sdiag import fetch_diag
from ingest.store.request import LoadRequest
from ingest.store.windows import LoadWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.slurm.commands.runner import Fetched, Runner
    from ingest.slurm.settings import SlurmSettings
    from ingest.store.request import Transport
    from ingest.tables import Parsed, SourceName

Service = Literal["slurmctld", "slurmdbd"]


@dataclass(frozen=True)
class PartRequest:
    """The parameters of a request.

    Attributes:
        runner: Runs a command. Where several clusters are configured and a controller is queried, it adds `-M CLUSTER`.
        config: All settings.
        now: Start of this ingest, to the second: the time of snapshots.
        since: Start of the requested time.
        until: End of the requested time.
        cluster: Cluster that rows without a name belong to; None where that is unknown.
        clusters: The clusters to request from slurmdbd (`-M`, `Clusters=`); empty: the cluster of this machine.
    """

    runner: Runner
    config: SlurmSettings
    now: datetime
    since: datetime
    until: datetime
    cluster: str | None
    clusters: tuple[str, ...]


def _as_it_is(parsed: Parsed, _: PartRequest) -> Parsed:
    return parsed


def _no_window(_: PartRequest) -> LoadWindow | None:
    return None


def requested_window(request: PartRequest) -> LoadWindow | None:
    """The window that a `PartRequest` names."""
    return LoadWindow(request.since, request.until)


@dataclass(frozen=True)
class LiveRequest:
    """One request to a running Slurm.

    Attributes:
        title: Its name in messages: the command.
        kind: Kind of text in the answer; `ingest.slurm.parsers` has its parser.
        fetch: Sends the request. SourceError where there is no answer.
        service: Which service answers: slurmctld (one cluster, which the answer need not name) or slurmdbd.
        needed: Without it the ingest has failed. Else a refused or missing answer is a warning.
        every_hours: Repeated only when the last answer is older than this.
        passes_window: The parser gets the requested time. Else the response's own times count.
        transport: How it is requested.
        window: The time requested by a `PartRequest`; None for a request without a time.
        request: Its name in `loads.request`; empty: `title`.
        parse: In place of the parser of `kind`.
        finish: Sets the time of the answer, where the text has none.
    """

    title: str
    kind: SourceName
    fetch: Callable[[PartRequest], Fetched]
    service: Service
    needed: bool = False
    every_hours: float = 0.0
    passes_window: bool = True
    transport: Transport = "command"
    window: Callable[[PartRequest], LoadWindow | None] = _no_window
    request: str = ""
    parse: Callable[[bytes, ParseContext], Parsed] | None = None
    finish: Callable[[Parsed, PartRequest], Parsed] = _as_it_is


def answer(part: LiveRequest, request: PartRequest, fetched: Fetched) -> Parsed:
    """The response, parsed.

    Raises:
        InputError: it cannot be.
    """
    snapshot = part.kind in SNAPSHOTS
    context = ParseContext(
        origin=fetched.origin,
        cluster=request.cluster,
        since=request.since if part.passes_window and not snapshot else None,
        until=request.now if snapshot else request.until if part.passes_window else None,
        planned_reasons=request.config.rules.planned_reasons,
    )
    parsed = parse(part.kind, fetched.data, context) if part.parse is None else part.parse(fetched.data, context)
    parsed = part.finish(parsed, request)
    return replace(parsed, warnings=[*fetched.warnings, *parsed.warnings])


def request_of(part: LiveRequest, request: PartRequest, fetched: Fetched) -> LoadRequest:
    """The request, for the account of the load."""
    since, until = part.window(request) or (None, None)
    return LoadRequest(fetched.origin, part.transport, part.request or part.title, since, until)


def _window(events: Parsed, request: PartRequest) -> Parsed:
    """Live events cover the window requested, but not for the time before the cluster existed.

    The cluster's own registration is among its events, and so is anything that began before the window and lasted
    into it; the earliest of all is the first sign of life that Slurm's database keeps.
    """
    born = events.covers_from or request.until
    return replace(events, covers_from=max(request.since, born), covers_until=request.until)


EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Account changes are requested from the beginning: accounts are older than any window of accounting."""


def _runaways(parsed: Parsed, _: PartRequest) -> Parsed:
    """Jobs whose end was lost hold GPUs for ever, unless an administrator ends them."""
    if not parsed.rows_loaded:
        return parsed
    warning = LoadWarning("runaway_jobs", parsed.rows_loaded)
    return replace(parsed, warnings=[*parsed.warnings, warning])


def _of(request: PartRequest) -> tuple[str, ...]:
    return (request.cluster,) if request.cluster else ()


SETTINGS: Final = LiveRequest(
    "scontrol show config", "slurm.config", lambda request: fetch_settings(request.runner), "slurmctld", needed=True
)
"""The first request: it names the cluster."""

PARTS: Final[tuple[LiveRequest, ...]] = (
    LiveRequest(
        "sacctmgr show event",
        "slurm.events",
        lambda request: fetch_events(
            request.runner, since=request.since, until=request.until, clusters=request.clusters
        ),
        "slurmdbd",
        needed=True,
        passes_window=False,
        window=requested_window,
        finish=_window,
    ),
    LiveRequest(
        "scontrol show node",
        "slurm.nodes",
        lambda request: fetch_nodes(request.runner),
        "slurmctld",
        needed=True,
        finish=lambda parsed, _: close_states_at_snapshot(parsed),
    ),
    LiveRequest(
        "scontrol show topology", "slurm.topology", lambda request: fetch_topology(request.runner), "slurmctld"
    ),
    LiveRequest(
        "sacctmgr show reservation",
        "slurm.reservations",
        lambda request: fetch_reservation_history(
            request.runner, since=request.since, until=request.until, clusters=request.clusters
        ),
        "slurmdbd",
        window=requested_window,
    ),
    LiveRequest(
        "scontrol show reservation",
        "slurm.reservations",
        lambda request: fetch_reservations(request.runner),
        "slurmctld",
    ),
    LiveRequest(
        "sacctmgr show assoc",
        "slurm.associations",
        lambda request: fetch_associations(request.runner, clusters=_of(request)),
        "slurmdbd",
        every_hours=1,
    ),
    LiveRequest(
        "sacctmgr show user",
        "slurm.associations",
        lambda request: fetch_users(request.runner, clusters=_of(request)),
        "slurmdbd",
        every_hours=1,
    ),
    LiveRequest("sacctmgr show qos", "slurm.qos", lambda request: fetch_qos(request.runner), "slurmdbd", every_hours=1),
    LiveRequest(
        "sacctmgr show transactions",
        "slurm.transactions",
        lambda request: fetch_transactions(request.runner, since=EARLIEST, until=request.until),
        "slurmdbd",
        every_hours=1,
        passes_window=False,
        window=lambda request: LoadWindow(EARLIEST, request.until),
        finish=lambda parsed, request: parsed if request.cluster is None else of_cluster(parsed, request.cluster),
    ),
    LiveRequest("sdiag", "slurm.diag", lambda request: fetch_diag(request.runner), "slurmctld"),
    LiveRequest(
        "squeue and sacct: runaway jobs",
        "slurm.runaway",
        lambda request: fetch_runaway(request.runner, clusters=request.clusters),
        "slurmdbd",
        every_hours=1,
        finish=_runaways,
    ),
)
"""In this order, after the settings and before accounting. Events have the beginning of the cluster."""


def accounting(config: SlurmSettings) -> LiveRequest:
    """The request that is repeated window by window."""
    return LiveRequest(
        "sacct",
        "slurm.accounting",
        lambda request: fetch_accounting(
            request.runner,
            since=request.since,
            until=request.until,
            clusters=request.clusters,
            steps=config.slurm.steps,
        ),
        "slurmdbd",
        needed=True,
        window=requested_window,
    )


def by_id(config: SlurmSettings, job_ids: Sequence[str]) -> LiveRequest:
    """The request for single jobs, whenever they were."""
    return LiveRequest(
        "sacct -j",
        "slurm.accounting",
        lambda request: fetch_jobs(request.runner, job_ids, clusters=request.clusters, steps=config.slurm.steps),
        "slurmdbd",
        passes_window=False,
        request="sacct",
        finish=lambda parsed, _: without_time(parsed),
    )
