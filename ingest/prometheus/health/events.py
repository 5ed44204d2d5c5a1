"""Health events in raw readings: faults of GPUs, memory, links, filesystems and nodes, with their times.

The rules are data (`ingest/prometheus/health/rules.toml`). Every decision about an event depends only on the readings
within LOOKBACK_S before its detection, so that segments of time with such a lookback have the same events as all of
the time at once.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from ingest.prometheus.client.raw import GONE_S
from ingest.prometheus.health import xid
from ingest.prometheus.health.condense import CondensedSeries, Condenser
from ingest.prometheus.health.rules import Rule, builtin
from ingest.prometheus.health.xid import ECHO_S, FIRST_SEEN
from ingest.prometheus.series.labels import SOURCE as GPU_SOURCE
from ingest.tables import HEALTH_EVENTS, REAL, TEXT, TIME, WHOLE, Schema, conform, empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ingest.prometheus.client.remote_read import Samples

SOURCE: Final = "prometheus.health"
"""Name of the source in `loads`, `rejects` and `health_events`."""

FORGET_S: Final = 1800
"""Seconds after which the last value read is no longer used."""

LOOKBACK_S: Final = 3600
"""Lookback of a segment in seconds: more than FORGET_S and two intervals of a rule."""

STEADY_S: Final = 900
"""Seconds that a series must have been read before its absence is an event."""

QUIET_AGAIN_S: Final = 1800
"""A fault that comes and goes is reported again after so many seconds (in intervals from the epoch)."""

EVENT_KEY: Final = ("cluster", "node", "gpu", "ts", "kind", "code", "device", "source")
"""Columns that identify an event of `health_events`."""


class HealthEvents(NamedTuple):
    """HEALTH_EVENTS, sorted; refused series (with reasons); numbers of readings and of blank ones.

    `covers_from` and `covers_until` are the times of the first and the last reading; both None without any.
    """

    events: pl.DataFrame
    refused: dict[str, str]
    readings: int
    blanks: int
    covers_from: datetime | None
    covers_until: datetime | None


def from_raw(
    batches: Iterable[Samples],
    *,
    cluster: str,
    reported_before: datetime | None = None,
    until: datetime | None = None,
    rules: Sequence[Rule] | None = None,
) -> HealthEvents:
    """Events in batches of readings; a series may be in several.

    Args:
        batches: readings, each series in order of time; those of metrics that no rule names are left alone.
        cluster: cluster of the rows.
        reported_before: events detected up to then belong to another load: they only show which later ones are new.
            Readings up to then do not count. LOOKBACK_S before it should be among them. None: all are reported.
        until: end of the readings. None: the last one's time.
        rules: the builtin ones if None.
    """
    gathering = Condenser(builtin() if rules is None else rules, reported_before)
    for samples in batches:
        gathering.add(samples)
    return health_events(gathering, cluster=cluster, reported_before=reported_before, until=until)


def health_events(
    gathering: Condenser, *, cluster: str, reported_before: datetime | None = None, until: datetime | None = None
) -> HealthEvents:
    """Events of condensed readings: see `from_raw`."""
    gathered = gathering.gathered()
    low = None if reported_before is None else round(reported_before.timestamp() * 1000)
    high = gathered.last if until is None else round(until.timestamp() * 1000)
    edges = _edges(gathered, gathering.rules, high or 0)
    if low is not None:
        edges = edges.filter(pl.col("known") > low)
    events = merge(empty(HEALTH_EVENTS), _dressed(edges, gathering.rules, cluster))
    moments = (None if ms is None else datetime.fromtimestamp(ms / 1000, UTC) for ms in (gathered.first, gathered.last))
    first, last = moments
    return HealthEvents(events, gathered.refused, gathered.readings, gathered.blanks, first, last)


# --- edges

_EDGE: Final[Schema] = {
    "rule": WHOLE,
    "node": TEXT,
    "gpu": TEXT,
    "device": TEXT,
    "code": TEXT,
    "kind": TEXT,
    "identity": TEXT,
    "ts": WHOLE,
    "known": WHOLE,
    "value": REAL,
    "first_seen": pl.Boolean(),
}
"""An edge at `ts`, detected at `known` (epoch milliseconds)."""

_TARGET: Final = ("node", "gpu", "device", "kind", "code")
_GONE, _FORGET = GONE_S * 1000, FORGET_S * 1000


def _edges(gathered: CondensedSeries, rules: Sequence[Rule], until: int) -> pl.DataFrame:
    """_EDGEs of all rules detected by `until`, without those that only repeat another series."""
    targets = gathered.targets.join(_as_frame(rules), on="rule", maintain_order="left")
    here = _presence(gathered)
    steps = _steps(gathered.runs).join(targets, on="series", maintain_order="left")
    steps = _with_other_series(_appeared_series(steps, here), steps)
    parts = [
        _levels(steps.filter(pl.col("event") == "level")),
        _increases(steps.filter(pl.col("event") == "increase")),
        _falls(steps.filter(pl.col("event") == "fall")),
        _shares(gathered.runs.join(targets.filter(pl.col("event") == "share"), on="series", maintain_order="left")),
        _vanished_series(gathered, targets.filter(pl.col("event") == "gone"), rules),
    ]
    edges = pl.concat(parts).filter(pl.col("known") <= until)
    first = pl.col("first_seen")
    return pl.concat([_without_echoes(edges.filter(~first)), edges.filter(first)])


def _as_frame(rules: Sequence[Rule]) -> pl.DataFrame:
    """Parameters of the rules; lengths of time in milliseconds."""
    numbers = ("above", "below", "other_than", "at_least", "share", "unit_s")
    schema = {"rule": WHOLE, "event": TEXT, "kind": TEXT} | dict.fromkeys(numbers, REAL)
    schema |= dict.fromkeys(("bits", "width", "again", "quiet"), WHOLE)
    schema |= dict.fromkeys(("ignored", "appears", "found"), pl.Boolean())
    rows = [
        (
            *(number, rule.event, rule.kind),
            *(getattr(rule, name) for name in numbers),
            *(rule.bits, rule.within_s * 1000, rule.again_s * 1000, rule.quiet_s * 1000),
            *(rule.restarts == "ignored", rule.appears, rule.found),
        )
        for number, rule in enumerate(rules)
    ]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _steps(runs: pl.DataFrame) -> pl.DataFrame:
    """RUNS with `before`, the value before (null where unknown), and `gap`, the time without readings."""
    reached = pl.col("high").cum_max().shift(1).over("series")
    gap = pl.col("low") - reached
    before = pl.col("value").shift(1).over("series")
    return runs.with_columns(gap=gap, before=pl.when(gap <= _FORGET).then(before))


def _presence(gathered: CondensedSeries) -> pl.DataFrame:
    """Periods in which each witness had readings, without gaps of more than GONE_S."""
    witnesses = gathered.targets.select("series", "witness").unique()
    return _unions(gathered.runs.join(witnesses, on="series").select("witness", "low", "high"), ["witness"])


def _unions(runs: pl.DataFrame, of: list[str]) -> pl.DataFrame:
    """Fewest intervals that hold all of these; gaps of up to GONE_S are closed."""
    ordered = runs.sort(*of, "low")
    reached = pl.col("high").cum_max().shift(1).over(of)
    fresh = (pl.col("low") - reached > _GONE).fill_null(value=True)
    number = fresh.cum_sum().over(of).alias("number")
    return ordered.group_by(*of, number, maintain_order=True).agg(pl.col("low").min(), pl.col("high").max())


def _appeared_series(steps: pl.DataFrame, here: pl.DataFrame) -> pl.DataFrame:
    """Steps; a series that `appears` was good (0) before, if its witness was read without it."""
    alone = pl.col("appears") & (pl.col("gap").is_null() | (pl.col("gap") > _GONE)) & (pl.col("event") == "level")
    alone |= pl.col("appears") & pl.col("before").is_null()
    numbered = steps.with_row_index("row")
    first_rows = (
        numbered.filter(alone)
        .select("row", "witness", "low")
        .join(here.rename({"low": "from", "high": "to"}), on="witness")
        .filter(pl.col("from") < pl.col("low"), pl.col("to") >= pl.col("low") - _GONE)
    )
    good = pl.col("row").is_in(first_rows["row"].implode())
    before = pl.when(good).then(pl.lit(0.0)).otherwise("before")
    return numbered.with_columns(before=before).drop("row")


def _with_other_series(steps: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Steps with `others`: recent values of other series of the same thing, where the series itself has none before.

    An exporter that was restarted, or scraped a second time, is a new series of an old fault.
    """
    numbered = steps.with_row_index("row")
    counted = (pl.col("event") == "increase") & (pl.col("value") > 0)
    bad = (pl.col("event") == "level") & _bad("value")
    unknown = numbered.filter(pl.col("before").is_null(), counted | bad)
    lately = (
        unknown.select("row", "rule", "node", "kin", "series", "low")
        .join(
            others.select("rule", "node", "kin", "series", "low", "high", "value"),
            on=["rule", "node", "kin"],
            suffix="_other",
        )
        .filter(
            pl.col("series") != pl.col("series_other"),
            pl.col("low_other") < pl.col("low"),
            pl.col("high") >= pl.col("low") - _GONE,
        )
        .group_by("row")
        .agg(pl.col("value").sort_by("low_other", "value").last().alias("others"))
    )
    return numbered.join(lately, on="row", how="left", maintain_order="left").drop("row")


def _bad(column: str) -> pl.Expr:
    """Whether a gauge's value is bad by its rule; null where there is none."""
    value = pl.col(column)
    masked = value.cast(WHOLE, strict=False) & pl.col("bits")
    return pl.coalesce(value > pl.col("above"), value < pl.col("below"), value != pl.col("other_than"), masked != 0)


def _levels(steps: pl.DataFrame) -> pl.DataFrame:
    """A gauge that becomes bad."""
    was = pl.coalesce(_bad("before"), _bad("others"))
    edge = (pl.col("bad") & ~pl.col("was")).fill_null(value=False)
    of = ["series", "rule"]
    marked = steps.with_columns(bad=_bad("value").fill_null(value=False), was=was).with_columns(edge=edge)
    lately = pl.when("bad").then("high").forward_fill().shift(1).over(of)
    reported = pl.when("edge").then("low").forward_fill().shift(1).over(of)
    same = pl.col("low") // (QUIET_AGAIN_S * 1000) == reported // (QUIET_AGAIN_S * 1000)
    quiet = ((pl.col("low") - lately <= pl.col("quiet")) & same).fill_null(value=False)
    first = pl.col("bad") & pl.col("was").is_null() & pl.col("found")
    return _as_edges(
        marked.with_columns(quieted=quiet)
        .filter((pl.col("edge") & ~pl.col("quieted")) | first)
        .with_columns(first_seen=pl.col("was").is_null(), value=pl.lit(None, dtype=REAL))
    )


def _increases(steps: pl.DataFrame) -> pl.DataFrame:
    """A counter that grew enough within an interval."""
    value, before = pl.col("value"), pl.col("before")
    restarted = pl.when("ignored").then(0.0).otherwise(value)
    grown = (
        pl.when(before.is_null())
        .then(pl.max_horizontal(value - pl.col("others"), 0.0))
        .when(pl.col("ignored") & (pl.col("gap") > _GONE))
        .then(0.0)
        .when(value >= before)
        .then(value - before)
        .otherwise(restarted)
    )
    unknown = before.is_null() & pl.col("others").is_null()
    first = steps.filter(unknown, "found", value > 0).with_columns(first_seen=pl.lit(value=True))
    of = ["series", "rule"]
    counted = (
        steps.filter(~unknown)
        .with_columns(grown=grown, cell=(pl.col("low") - 1) // pl.col("width"))
        .filter(pl.col("grown") > 0)
        .with_columns(summed=pl.col("grown").cum_sum().over([*of, "cell"]))
        .filter(pl.col("summed") >= pl.col("at_least"), pl.col("summed") - pl.col("grown") < pl.col("at_least"))
        .with_columns(value=pl.col("summed"), first_seen=pl.lit(value=False))
    )
    return pl.concat([_as_edges(first), _as_edges(_not_going_on(counted))])


def _not_going_on(bad: pl.DataFrame) -> pl.DataFrame:
    """Bad cells of a series, without those that continue the one before and belong to the same `again`."""
    last = pl.col("cell").shift(1).over("series", "rule")
    begins, began = pl.col("cell") * pl.col("width"), last * pl.col("width")
    continues = (last == pl.col("cell") - 1) & (begins // pl.col("again") == began // pl.col("again"))
    return bad.filter(~continues.fill_null(value=False))


def _falls(steps: pl.DataFrame) -> pl.DataFrame:
    fell = steps.filter(pl.col("value") < pl.col("before"))
    return _as_edges(fell.with_columns(first_seen=pl.lit(value=False)))


def _shares(readings: pl.DataFrame) -> pl.DataFrame:
    """A counter of time that grew for a share of an interval: between the last readings of two intervals.

    It is reported at the end of the interval: more readings may come while the last one is new.
    """
    of = ["series", "rule"]
    ends = (
        readings.with_columns(cell=(pl.col("low") - 1) // pl.col("width"))
        .sort(*of, "low")
        .unique([*of, "cell"], keep="last", maintain_order=True)
    )
    value, before = pl.col("value"), pl.col("value").shift(1).over(of)
    grown = pl.when(value >= before).then(value - before).otherwise(value) * pl.col("unit_s")
    elapsed = (pl.col("low") - pl.col("low").shift(1).over(of)) / 1000
    neighbour = pl.col("cell").shift(1).over(of) == pl.col("cell") - 1
    bad = (
        ends.with_columns(neighbour=neighbour, value=pl.min_horizontal(grown / elapsed, 1.0))
        .filter(pl.col("neighbour"), pl.col("value") >= pl.col("share"))
        .with_columns(first_seen=pl.lit(value=False), low=(pl.col("cell") + 1) * pl.col("width"))
    )
    return _as_edges(_not_going_on(bad))


def _vanished_series(gathered: CondensedSeries, targets: pl.DataFrame, rules: Sequence[Rule]) -> pl.DataFrame:
    """Series that were read for a while, and then not for GONE_S, while their witness still reported others.

    A failed collector reports none of them.
    """
    of = ["rule", "witness", *_TARGET]
    names = targets.group_by(of).agg(pl.col("identity").min())
    runs = gathered.runs.join(targets, on="series").select(*of, "low", "high")
    gone = [(number, name) for number, rule in enumerate(rules) if rule.event == "gone" for name in rule.names]
    alike = pl.DataFrame(gone, schema={"rule": WHOLE, "name": TEXT}, orient="row").join(
        gathered.targets.select("series", "name", "witness").unique(), on="name"
    )
    others = gathered.runs.join(alike, on="series").select("rule", "witness", "low", "high")
    here = _unions(others, ["rule", "witness"]).rename({"low": "from", "high": "to"})
    last = pl.col("high")
    return _as_edges(
        _unions(runs, of)
        .join(names, on=of, maintain_order="left")
        .filter(last - pl.col("low") >= STEADY_S * 1000)
        .join(here, on=["rule", "witness"], maintain_order="left")
        .filter(pl.col("from") <= last, pl.col("to") >= last + _GONE)
        .with_columns(low=last, known=last + _GONE, value=pl.lit(None, dtype=REAL), first_seen=pl.lit(value=False))
    )


def _as_edges(frame: pl.DataFrame) -> pl.DataFrame:
    known = "known" if "known" in frame.columns else "low"
    return conform(frame.with_columns(pl.col("low").alias("ts"), pl.col(known).alias("known")), _EDGE)


def _without_echoes(edges: pl.DataFrame) -> pl.DataFrame:
    """Edges without those that another series had in the ECHO_S before. A series does not repeat itself.

    Of edges at one moment that of the first series (by name) stays.
    """
    ordered = edges.sort(*_TARGET, "ts", "identity").unique([*_TARGET, "ts", "identity"], maintain_order=True)
    other = pl.col("identity") != pl.col("identity").shift(1).over(_TARGET)
    last = pl.when(other).then(pl.col("ts").shift(1).over(_TARGET)).forward_fill().over(_TARGET)
    return ordered.filter((pl.col("ts") - last > ECHO_S * 1000).fill_null(value=True))


# --- rows


def _dressed(edges: pl.DataFrame, rules: Sequence[Rule], cluster: str) -> pl.DataFrame:
    """Edges as HEALTH_EVENTS."""
    texts = pl.DataFrame(
        [(n, r.event, r.severity, r.description, r.action, r.kind_of_cause, r.within_s) for n, r in enumerate(rules)],
        schema={"rule": WHOLE, "event": TEXT, "severity": TEXT, "description": TEXT, "action": TEXT, "class": TEXT}
        | {"within_s": WHOLE},
        orient="row",
    )
    first, value, empty_to_null = pl.col("first_seen"), pl.col("value"), {"": None}
    whole = pl.coalesce(value.cast(WHOLE, strict=False).cast(TEXT), value.cast(TEXT))
    much = (
        pl.when(pl.col("event") == "share")
        .then(pl.format(" ({}% of {} s)", (value * 100).round().cast(WHOLE), "within_s"))
        .when(first & value.is_not_null())
        .then(pl.format(" ({})", whole))
        .when(pl.col("event") == "increase")
        .then(pl.format(" (+{})", whole))
        .otherwise(pl.lit(""))
    )
    where = pl.when(pl.col("device") == "").then(pl.lit("")).otherwise(pl.format(": {}", "device"))
    text = pl.concat_str("description", where, much)
    return conform(
        edges.join(texts, on="rule", maintain_order="left").with_columns(
            cluster=pl.lit(cluster),
            ts=pl.from_epoch("ts", time_unit="ms").dt.replace_time_zone("UTC").cast(TIME),
            gpu=pl.col("gpu").replace(empty_to_null),
            device=pl.col("device").replace(empty_to_null),
            source=pl.lit(SOURCE),
            evidence=pl.lit("telemetry"),
            severity=pl.when(first).then(pl.lit("info")).otherwise("severity"),
            detail=pl.when(first).then(pl.lit(FIRST_SEEN) + text).otherwise(text),
        ),
        HEALTH_EVENTS,
    )


def merge(stored: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Stored and new events (HEALTH_EVENTS of any kinds and sources) as one list, each once, sorted.

    `stored` must have all events of the nodes (or GPUs) of the new ones. An event whose beginning was observed replaces
    one that was already present at the same time; one already present is dropped where the same event is stored.
    """
    of_xid = (pl.col("kind") == "xid") & (pl.col("source") == GPU_SOURCE)
    xids = xid.merge(stored.filter(of_xid), new.filter(of_xid))
    found_present = pl.col("detail").str.starts_with(FIRST_SEEN).fill_null(value=False)
    key = [name for name in EVENT_KEY if name != "ts"]
    rest = [name for name in HEALTH_EVENTS if name not in EVENT_KEY]
    both = (
        pl.concat([stored.filter(~of_xid), new.filter(~of_xid)])
        .with_columns(found=found_present)
        .sort(*EVENT_KEY, "found", *rest, nulls_last=True)
        .unique(EVENT_KEY, keep="first", maintain_order=True)
    )
    earlier_exists = pl.col("ts") > pl.col("ts").min().over(key)
    others = both.filter(~(pl.col("found") & earlier_exists)).drop("found")
    return pl.concat([others, xids]).sort(*EVENT_KEY, nulls_last=True, maintain_order=True)
