"""What a running Slurm is asked for besides accounting: a list of parts, one line each, and how each answer is used.

A source that is added here is read by every live ingest: give its command, and a parser in `ingest.slurm.parsers`.
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
from ingest.slurm.load_files import seen_until_now
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
from ingest.store.windows import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.slurm.commands.runner import Fetched, Runner
    from ingest.slurm.settings import SlurmSettings
    from ingest.store.request import Transport
    from ingest.tables import Parsed, SourceName

Service = Literal["slurmctld", "slurmdbd"]


@dataclass(frozen=True)
class Ask:
    """What a part may need to know to ask its question.

    Attributes:
        runner: Runs a command. Where several clusters are configured and a controller is asked, it adds `-M CLUSTER`.
        config: All settings.
        now: When this ingest began, to the second: snapshots are of then.
        since: Start of the time asked for.
        until: End of the time asked for.
        cluster: Cluster that rows without a name belong to; None where nothing tells.
        clusters: What to ask slurmdbd for (`-M`, `Clusters=`); empty: the cluster of this machine.
    """

    runner: Runner
    config: SlurmSettings
    now: datetime
    since: datetime
    until: datetime
    cluster: str | None
    clusters: tuple[str, ...]


def _as_it_is(parsed: Parsed, _: Ask) -> Parsed:
    return parsed


def _no_window(_: Ask) -> Window | None:
    return None


def requested_window(ask: Ask) -> Window | None:
    """The window that an `Ask` names."""
    return Window(ask.since, ask.until)


@dataclass(frozen=True)
class Part:
    """One question to a running Slurm.

    Attributes:
        title: What messages call it: the command.
        kind: What kind of text comes back; `ingest.slurm.parsers` has its parser.
        fetch: Asks. SourceError where there is no answer.
        service: Who answers: slurmctld (one cluster, which the answer need not name) or slurmdbd.
        needed: Without it the ingest has failed. Else what a site forbids or lacks is a warning.
        every_hours: Asked for again only when the last answer is older than this.
        tells_window: The parser is told the time asked for. Else the answer's own times are wanted.
        transport: How it is requested.
        window: The time that is requested of an `Ask`; None where no time is.
        request: What `loads.request` calls it; empty: `title`.
        parse: In place of the parser of `kind`.
        finish: What the answer says of its time, where the parser cannot know.
    """

    title: str
    kind: SourceName
    fetch: Callable[[Ask], Fetched]
    service: Service
    needed: bool = False
    every_hours: float = 0.0
    tells_window: bool = True
    transport: Transport = "command"
    window: Callable[[Ask], Window | None] = _no_window
    request: str = ""
    parse: Callable[[bytes, ParseContext], Parsed] | None = None
    finish: Callable[[Parsed, Ask], Parsed] = _as_it_is


def answer(part: Part, ask: Ask, fetched: Fetched) -> Parsed:
    """What was fetched, understood.

    Raises:
        InputError: it cannot be.
    """
    snapshot = part.kind in SNAPSHOTS
    given = ParseContext(
        origin=fetched.origin,
        cluster=ask.cluster,
        since=ask.since if part.tells_window and not snapshot else None,
        until=ask.now if snapshot else ask.until if part.tells_window else None,
        planned_reasons=ask.config.rules.planned_reasons,
    )
    parsed = parse(part.kind, fetched.data, given) if part.parse is None else part.parse(fetched.data, given)
    parsed = part.finish(parsed, ask)
    return replace(parsed, warnings=[*fetched.warnings, *parsed.warnings])


def request_of(part: Part, ask: Ask, fetched: Fetched) -> LoadRequest:
    """What was requested, for the account of the load."""
    since, until = part.window(ask) or (None, None)
    return LoadRequest(fetched.origin, part.transport, part.request or part.title, since, until)


def _window(events: Parsed, ask: Ask) -> Parsed:
    """Live events speak for the window asked for, but not for the time before the cluster existed.

    The cluster's own registration is among its events, and so is anything that began before the window and lasted
    into it; the earliest of all is the first sign of life that Slurm's database keeps.
    """
    born = events.covers_from or ask.until
    return replace(events, covers_from=max(ask.since, born), covers_until=ask.until)


EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Account changes are asked for from the beginning: who was provisioned when is older than any window of accounting."""


def _runaways(parsed: Parsed, _: Ask) -> Parsed:
    """Jobs whose end was lost hold GPUs for ever, unless somebody looks at them."""
    if not parsed.rows_loaded:
        return parsed
    said = LoadWarning("runaway_jobs", parsed.rows_loaded)
    return replace(parsed, warnings=[*parsed.warnings, said])


def _of(ask: Ask) -> tuple[str, ...]:
    return (ask.cluster,) if ask.cluster else ()


SETTINGS: Final = Part(
    "scontrol show config", "slurm.config", lambda ask: fetch_settings(ask.runner), "slurmctld", needed=True
)
"""Asked first: it names the cluster."""

PARTS: Final[tuple[Part, ...]] = (
    Part(
        "sacctmgr show event",
        "slurm.events",
        lambda ask: fetch_events(ask.runner, since=ask.since, until=ask.until, clusters=ask.clusters),
        "slurmdbd",
        needed=True,
        tells_window=False,
        window=requested_window,
        finish=_window,
    ),
    Part(
        "scontrol show node",
        "slurm.nodes",
        lambda ask: fetch_nodes(ask.runner),
        "slurmctld",
        needed=True,
        finish=lambda parsed, _: seen_until_now(parsed),
    ),
    Part("scontrol show topology", "slurm.topology", lambda ask: fetch_topology(ask.runner), "slurmctld"),
    Part(
        "sacctmgr show reservation",
        "slurm.reservations",
        lambda ask: fetch_reservation_history(ask.runner, since=ask.since, until=ask.until, clusters=ask.clusters),
        "slurmdbd",
        window=requested_window,
    ),
    Part("scontrol show reservation", "slurm.reservations", lambda ask: fetch_reservations(ask.runner), "slurmctld"),
    Part(
        "sacctmgr show assoc",
        "slurm.associations",
        lambda ask: fetch_associations(ask.runner, clusters=_of(ask)),
        "slurmdbd",
        every_hours=1,
    ),
    Part(
        "sacctmgr show user",
        "slurm.associations",
        lambda ask: fetch_users(ask.runner, clusters=_of(ask)),
        "slurmdbd",
        every_hours=1,
    ),
    Part("sacctmgr show qos", "slurm.qos", lambda ask: fetch_qos(ask.runner), "slurmdbd", every_hours=1),
    Part(
        "sacctmgr show transactions",
        "slurm.transactions",
        lambda ask: fetch_transactions(ask.runner, since=EARLIEST, until=ask.until),
        "slurmdbd",
        every_hours=1,
        tells_window=False,
        window=lambda ask: Window(EARLIEST, ask.until),
        finish=lambda parsed, ask: parsed if ask.cluster is None else of_cluster(parsed, ask.cluster),
    ),
    Part("sdiag", "slurm.diag", lambda ask: fetch_diag(ask.runner), "slurmctld"),
    Part(
        "squeue and sacct: runaway jobs",
        "slurm.runaway",
        lambda ask: fetch_runaway(ask.runner, clusters=ask.clusters),
        "slurmdbd",
        every_hours=1,
        finish=_runaways,
    ),
)
"""Asked in this order, after the settings and before accounting. Events tell since when there is a cluster."""


def accounting(_: SlurmSettings) -> Part:
    """The part that is asked window by window; which transport it takes is a matter of configuration."""
    return Part(
        "sacct",
        "slurm.accounting",
        lambda ask: fetch_accounting(ask.runner, since=ask.since, until=ask.until, clusters=ask.clusters),
        "slurmdbd",
        needed=True,
        window=requested_window,
    )


def by_id(_: SlurmSettings, job_ids: Sequence[str]) -> Part:
    """The part that asks for single jobs, whenever they were."""
    return Part(
        "sacct -j",
        "slurm.accounting",
        lambda ask: fetch_jobs(ask.runner, job_ids, clusters=ask.clusters),
        "slurmdbd",
        tells_window=False,
        request="sacct",
        finish=lambda parsed, _: without_time(parsed),
    )
