"""The view of an address: cluster, period and filters, checked, and formatted as addresses again."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from app.clusters import clusters, require_cluster
from app.errors import UsageError
from app.explorer import commands, zones
from app.faults import FAULTS
from app.formatting import minute
from app.results.coverage import accounted, gaps_in, share_without
from app.times import iso, months, parse_time
from app.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import tzinfo

    from app.results.coverage import Interval
    from queries.warehouse import Reader

logger = logging.getLogger("trackside.explorer")

KEPT = ("cluster", "since", "until", "zone")
"""Parameters of an address that its links carry on."""

LONGEST = 200
"""Characters of a parameter that are taken seriously."""


@dataclass(frozen=True)
class ClusterState:
    """The computed state of a cluster: the time of its numbers, their age, and the time that accounting covers."""

    cluster: str
    since: datetime
    until: datetime
    computed_at: datetime
    newer_loads: int
    accounted: tuple[Interval, ...]


@dataclass(frozen=True)
class Situation:
    """What the warehouse holds.

    Attributes:
        clusters: all of them.
        computed: those of which something was computed.
        data_version: the published one.
        any_attempts: whether accounting of any is loaded: without it nothing can be computed.
    """

    clusters: tuple[str, ...] = ()
    computed: tuple[ClusterState, ...] = ()
    data_version: int = 0
    any_attempts: bool = True


@dataclass(frozen=True)
class View:
    """A checked address.

    Attributes:
        window: cluster and time of the page, within the computed time.
        state: the computed state of the cluster.
        situation: all clusters.
        params: the address's parameters, without empty ones.
        requested: the requested cluster and time, which may extend beyond the computed time.
        options: what commands need to read the same warehouse by the same configuration (`commands.options_of`).
    """

    window: Window
    state: ClusterState
    situation: Situation
    params: Mapping[str, str]
    requested: Window
    options: str = ""

    @property
    def whole(self) -> float:
        """Share of the requested period that the data cover."""
        return share_without(self.requested, gaps_in(self.requested, self.state.accounted))

    def get(self, name: str, default: str = "") -> str:
        """A parameter of the address."""
        return self.params.get(name, default)

    @property
    def zone(self) -> tzinfo:
        """The time zone of its dates and of the times in its tables."""
        return zones.zone_of(self.params)

    @property
    def zone_name(self) -> str:
        """Its name, as in the address."""
        return self.get("zone", zones.UTC_NAME)

    @property
    def in_utc(self) -> bool:
        """Whether its clocks show UTC."""
        return self.zone_name == zones.UTC_NAME

    def moment(self, value: datetime | None) -> str:
        """A time to the minute as clocks in the chosen zone show it."""
        return minute(None if value is None else zones.local(value, self.zone))

    def titled(self, heading: str) -> str:
        """The heading of times, with whose clocks show them: `Started (UTC)`."""
        return f"{heading} ({zones.place(self.zone_name)})"

    def link(self, path: str, **params: str) -> str:
        """An address of the explorer with the same cluster, period and time zone."""
        period = {name: self.params[name] for name in KEPT if name in self.params}
        return address(path, period | params)  # an empty parameter is left out

    @property
    def command(self) -> str:
        """Arguments of `trackside show` that name the same cluster and period."""
        import shlex  # noqa: PLC0415 - only here

        options = [f"--cluster {shlex.quote(self.window.cluster)}"]
        ends = {"since": self.requested.since, "until": self.requested.until}
        for name, moment in ends.items():
            if typed := self.params.get(name):  # the command line reads times without a zone as UTC
                options.append(f"--{name} {shlex.quote(typed) if self.in_utc else iso(moment)}")
        return " ".join(options)

    def completed(self, text: str) -> str:
        """A text whose commands read the same warehouse by the same configuration."""
        return commands.completed(text, self.options)


class NothingYetError(Exception):
    """Something may be loaded, but nothing is computed."""

    def __init__(self, situation: Situation) -> None:
        super().__init__("nothing is computed yet")
        self.situation = situation


def situation(source: Reader) -> Situation:
    """What the warehouse holds. A cluster whose state cannot be read is one without numbers, and hides no other."""
    names = tuple(clusters(source))
    states: list[ClusterState] = []
    for cluster in names:
        try:
            states.extend(_computed(source, cluster))
        except FAULTS:
            logger.exception("%s: its state cannot be read", cluster)
    return Situation(names, tuple(states), source.data_version, bool(source.query("any_attempts")["any"].item()))


def _computed(source: Reader, cluster: str) -> list[ClusterState]:
    """The state of a cluster; empty where it is not computed."""
    states = []
    for row in source.query("computed", cluster=cluster).iter_rows(named=True):
        newer = source.query("loads_since_computed", cluster=cluster)["loads"].item()
        loaded = accounted(source, row)
        states.append(ClusterState(cluster, row["since"], row["until"], row["computed_at"], int(newer or 0), loaded))
    return states


def parameters(search: str | None) -> dict[str, str]:
    """The parameters of an address; of one that is there twice, the last.

    >>> parameters("?cluster=a&since=&by=node")
    {'cluster': 'a', 'by': 'node'}
    """
    pairs = parse_qsl((search or "").removeprefix("?"), keep_blank_values=False)
    return {name: value[:LONGEST] for name, value in pairs}


def address(path: str, params: Mapping[str, str]) -> str:
    """An address; empty parameters are left out.

    >>> address("/run", {"cluster": "a b", "id": "7", "by": ""})
    '/run?cluster=a+b&id=7'
    """
    values = {name: value for name, value in params.items() if value}
    return f"{path}?{urlencode(values)}" if values else path


def resolve(situation: Situation, params: Mapping[str, str]) -> View:
    """Check an address against the contents of the warehouse.

    Raises:
        UsageError: no such cluster, a time that is none, a period that ends before it begins or of which nothing is
            known; the message lists the known ones.
    """
    by_name = {each.cluster: each for each in situation.computed}
    params = _with_one_cluster(params, by_name)
    zones.checked(params.get("zone", ""))
    name = params.get("cluster") or next(iter(by_name))
    if name not in by_name:
        if name in situation.clusters:
            raise UsageError(f"cluster {name!r} is loaded but not computed yet; run: trackside compute")
        require_cluster(name, list(by_name))
    state = by_name[name]
    since = _time(params, "since", state) or state.since
    until = _time(params, "until", state) or state.until
    if since >= until:
        raise UsageError(f"since ({iso(since)}) is not before until ({iso(until)})")
    window = Window(name, max(since, state.since), min(until, state.until))
    if window.since >= window.until:
        raise UsageError(
            f"{name} has no data between {iso(since)} and {iso(until)}; "
            f"the data cover {iso(state.since)} to {iso(state.until)}"
        )
    return View(window, state, situation, dict(params), Window(name, since, until))


def _with_one_cluster(params: Mapping[str, str], known: Iterable[str]) -> Mapping[str, str]:
    """Parameters with `cluster` in place of `clusters`, what a board of Grafana has chosen, if that is one.

    Grafana writes one as `a`, several as `{a,b}`, and all as a pattern.
    """
    if "clusters" not in params:
        return params
    chosen = {*params["clusters"].strip("{}").split(",")} & {*known}
    one = {"cluster": chosen.pop()} if len(chosen) == 1 and "cluster" not in params else {}
    return {name: value for name, value in params.items() if name != "clusters"} | one


def _time(params: Mapping[str, str], name: str, state: ClusterState) -> datetime | None:
    text = params.get(name)
    if not text:
        return None
    try:
        return parse_time(text, end=state.until, zone=zones.zone_of(params))
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def days(window: Window, zone: tzinfo = UTC) -> list[str]:
    """First and last day of a window, both included, as a calendar in a zone shows them.

    >>> days(Window("c", *(datetime.fromisoformat(f"2026-{month}-01T00:00Z") for month in (10, 11))))
    ['2026-10-01', '2026-10-31']
    """
    last = window.until - timedelta(microseconds=1)
    return [zones.local(each, zone).date().isoformat() for each in (window.since, last)]


ALL, CUSTOM = "all", "custom"


def periods(state: ClusterState, zone: tzinfo = UTC) -> dict[str, tuple[str, dict[str, str]]]:
    """The offered periods, months with the midnights of a zone: key -> label, and the parameters of its address."""
    offered: dict[str, tuple[str, dict[str, str]]] = {ALL: ("All data", {})}
    for length in (90, 28, 7, 1):
        if state.until - state.since > timedelta(days=length):
            label = f"Last {length} days" if length > 1 else "Last 24 hours"
            offered[f"{length}d"] = (label, {"since": f"{length}d"})
    calendar = {}
    for low, high in _local_months(state, zone):
        values = {"since": low.date().isoformat(), "until": high.date().isoformat()}
        calendar[low.strftime("%Y-%m")] = (low.strftime("%B %Y"), values)
    return offered | dict(reversed(calendar.items()))


def _local_months(state: ClusterState, zone: tzinfo) -> Iterator[tuple[datetime, datetime]]:
    for ends in months(state.since, state.until, zone):
        low, high = (zones.local(each, zone) for each in ends)
        yield low, high


def period_of(view: View) -> str:
    """The key of the offered period that the address requests; `custom` if it is none of them."""
    values = {name: view.params[name] for name in ("since", "until") if name in view.params}
    for key, (_, params) in periods(view.state, view.zone).items():
        if params == values:
            return key
    return CUSTOM
