"""What an address asks for: cluster, period and filters, checked, and put back into addresses."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from app.clusters import clusters, require_cluster
from app.errors import UsageError
from app.faults import FAULTS
from app.results.coverage import accounted, gaps_in, share_without
from app.times import iso, months, parse_time
from app.window import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.results.coverage import Stretch
    from queries.warehouse import Reader

logger = logging.getLogger("trackside.explorer")

LONGEST = 200
"""Characters of a parameter that are taken seriously."""


@dataclass(frozen=True)
class Computed:
    """What is known of a cluster: the time that its numbers cover, how fresh they are, what accounting speaks for."""

    cluster: str
    since: datetime
    until: datetime
    computed_at: datetime
    newer_loads: int
    accounted: tuple[Stretch, ...]


@dataclass(frozen=True)
class Situation:
    """What the warehouse holds: all clusters, those of which something was computed, and the published data version."""

    clusters: tuple[str, ...] = ()
    computed: tuple[Computed, ...] = ()
    data_version: int = 0


@dataclass(frozen=True)
class View:
    """A checked address.

    Attributes:
        window: cluster and time that the page is about, within what is computed.
        known: what is known of the cluster.
        situation: all clusters.
        params: the address's parameters as they came, without empty ones.
        asked: cluster and time that were asked for, which may reach beyond what is computed.
    """

    window: Window
    known: Computed
    situation: Situation
    params: Mapping[str, str]
    asked: Window

    @property
    def whole(self) -> float:
        """Share of the period asked for that the data speak for."""
        return share_without(self.asked, gaps_in(self.asked, self.known.accounted))

    def get(self, name: str, default: str = "") -> str:
        """A parameter of the address."""
        return self.params.get(name, default)

    def link(self, path: str, **params: str) -> str:
        """An address of the explorer with the same cluster and period."""
        kept = {name: self.params[name] for name in ("cluster", "since", "until") if name in self.params}
        return address(path, kept | params)

    @property
    def command(self) -> str:
        """Arguments of `trackside show` that name the same cluster and period."""
        import shlex  # noqa: PLC0415 - only here

        low, high = self.params.get("since"), self.params.get("until")
        said = [f"--cluster {shlex.quote(self.window.cluster)}"]
        if low:
            said.append(f"--since {shlex.quote(low)}")
        if high:
            said.append(f"--until {shlex.quote(high)}")
        return " ".join(said)


def situation(source: Reader) -> Situation:
    """What the warehouse holds. A cluster whose state cannot be read is one without numbers, and hides no other."""
    names = tuple(clusters(source))
    found: list[Computed] = []
    for cluster in names:
        try:
            found.extend(_computed(source, cluster))
        except FAULTS:
            logger.exception("%s: its state cannot be read", cluster)
    return Situation(names, tuple(found), source.data_version)


def _computed(source: Reader, cluster: str) -> list[Computed]:
    """What is known of a cluster; nothing where it is not computed."""
    found = []
    for row in source.query("computed", cluster=cluster).iter_rows(named=True):
        newer = source.query("loads_since_computed", cluster=cluster)["loads"].item()
        loaded = accounted(source, row)
        found.append(Computed(cluster, row["since"], row["until"], row["computed_at"], int(newer or 0), loaded))
    return found


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
    told = {name: value for name, value in params.items() if value}
    return f"{path}?{urlencode(told)}" if told else path


def resolve(found: Situation, params: Mapping[str, str]) -> View:
    """Check an address against what there is.

    Raises:
        UsageError: no such cluster, a time that is none, a period that ends before it begins or of which nothing is
            known; the message says what there is instead.
    """
    by_name = {each.cluster: each for each in found.computed}
    name = params.get("cluster") or next(iter(by_name))
    if name not in by_name:
        if name in found.clusters:
            raise UsageError(f"cluster {name!r} is loaded but not computed yet; run: trackside compute")
        require_cluster(name, list(by_name))
    known = by_name[name]
    since = _time(params, "since", known) or known.since
    until = _time(params, "until", known) or known.until
    if since >= until:
        raise UsageError(f"since ({iso(since)}) is not before until ({iso(until)})")
    window = Window(name, max(since, known.since), min(until, known.until))
    if window.since >= window.until:
        raise UsageError(
            f"nothing is known of {name} between {iso(since)} and {iso(until)}; "
            f"the data speak for {iso(known.since)} to {iso(known.until)}"
        )
    return View(window, known, found, dict(params), Window(name, since, until))


def _time(params: Mapping[str, str], name: str, known: Computed) -> datetime | None:
    text = params.get(name)
    if not text:
        return None
    try:
        return parse_time(text, end=known.until)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def days(window: Window) -> list[str]:
    """First and last day of a window, both included, as a calendar shows them.

    >>> days(Window("c", *(datetime.fromisoformat(f"2026-{month}-01T00:00Z") for month in (10, 11))))
    ['2026-10-01', '2026-10-31']
    """
    last = window.until - timedelta(microseconds=1)
    return [window.since.date().isoformat(), last.date().isoformat()]


ALL, CUSTOM = "all", "custom"


def periods(known: Computed) -> dict[str, tuple[str, dict[str, str]]]:
    """The periods on offer: key -> words, and the parameters that ask for it."""
    found: dict[str, tuple[str, dict[str, str]]] = {ALL: ("All data", {})}
    for length in (28, 7):
        if known.until - known.since > timedelta(days=length):
            found[f"{length}d"] = (f"Last {length} days", {"since": f"{length}d"})
    calendar = {}
    for low, high in months(known.since, known.until):
        told = {"since": low.date().isoformat(), "until": high.date().isoformat()}
        calendar[low.strftime("%Y-%m")] = (low.strftime("%B %Y"), told)
    return found | dict(reversed(calendar.items()))


def period_of(view: View) -> str:
    """Which of the periods on offer the address asks for; `custom` if none of them."""
    told = {name: view.params[name] for name in ("since", "until") if name in view.params}
    for key, (_, params) in periods(view.known).items():
        if params == told:
            return key
    return CUSTOM
