"""Differential diagnosis of endings: what nodes reported around them, the likeliest cause, and where it can come from.

Each symptom lists all failure domains that it can come from (the user's program, system software, hardware), and a
domain is struck off only with evidence: an NCCL timeout or a plain exit status can be any of the three, a GPU that has
fallen off the bus is hardware. Several events may match; the likeliest is a guess by a stated rule, and the others
stay visible.

Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters", section III and Table I;
classes of XIDs: NVIDIA's XID catalogue.
"""

from __future__ import annotations

import polars as pl

from metrics import frames
from metrics.time_join import nearby, prefiltered

EVENTS: frames.Schema = frames.EVENTS | {"lasts_until": frames.TIME}
"""Events; `lasts_until` is the end of a node state (far in the future while it lasts), null for a moment."""

EVENTS_SHOWN = 6
"""Events that `events` names; the number of further events follows them."""

DOMAINS = ("user", "software", "hardware")
"""The user's program, system software (drivers, schedulers, mounts), hardware."""

OF_STATE = {
    "NODE_FAIL": ("software", "hardware"),  # a slurmd or its pod may have gone, not the node (manual, Failures)
    "BOOT_FAIL": ("software", "hardware"),
    "LAUNCH_FAILED": ("software", "hardware"),
    "RECONFIG_FAIL": ("software",),
    "OUT_OF_MEMORY": ("user",),
    "PREEMPTED": (),
}
"""Domains that a final state can come from by itself; a state that is not here can come from any."""

OF_CLASS = {
    "HW": ("hardware",),
    "NETWORK": ("hardware",),
    "DRIVER": ("software", "hardware"),
    "FILESYSTEM": ("software", "hardware"),
    "NODE": ("software", "hardware"),
    "SOFTWARE": ("software",),
    "APP": ("user",),
}
"""The domains that a class of events points to: a prior, not a fact. Classes that are not here rule nothing out."""

_SILENT = ("INFO", "WARN", "CONSEQUENCE")
"""Classes of events that are no cause by themselves: trends, and what only follows from another event (XID 45)."""

_NOT_THE_PROGRAM = ("32", *(str(code) for code in range(144, 151)))
"""XIDs without a class that nevertheless do not come from the user's program: bus quality, NVLink 5."""

_PROGRAM = ("13", "31", "43", "69", "137")
"""XIDs that point to the user's program first, where only the words of a drain name them."""

_HARDWARE_WORDS = (
    r"(?i)\b(xid|ecc|nvlink|nvswitch|gpus?|pcie|ib|infiniband|mlx\d*\w*|nic|dimm|nvme|disk|psu|fan|thermal|hardware)\b"
    r"|hardware_problem"
)
_POD_GONE = r"(?i)^k8s: pod terminated"
_UNKILLABLE = r"(?i)^kill task failed"
"""The classes that the reasons of node states point to (SUNK's syncer, Slurm's own words, health checks)."""

REACTIONS = ("node_down", "node_drained", "prolog", "pod_terminated")
"""Kinds that are the scheduler's answer to a fault: what a sensor reported at the time is nearer to its cause."""

_SEVERITIES = {"critical": 0, "warning": 1, "info": 2}
_KEY = list(frames.ATTEMPT_KEY)


def kind_of_state(state: pl.Expr, reason: pl.Expr) -> pl.Expr:
    """Kind of a node state that ended attempts: one of `REACTIONS`.

    A pod that went is distinguished from a node that did: on Kubernetes a NODE_FAIL may be the loss of a slurmd pod and
    no fault of the hardware.
    """
    return (
        pl.when(reason.str.contains("(?i)^prolog error"))
        .then(pl.lit("prolog"))
        .when(reason.str.contains(_POD_GONE))
        .then(pl.lit("pod_terminated"))
        .when(state == "down")
        .then(pl.lit("node_down"))
        .otherwise(pl.lit("node_drained"))
    )


def class_of_reason(reason: pl.Expr) -> pl.Expr:
    """The class that the words of a node state's reason point to, as `health_events.class`."""
    return (
        pl.when(reason.str.extract(r"(?i)\bxid\W*(\d+)").is_in(_PROGRAM))
        .then(pl.lit("APP"))
        .when(reason.str.contains(_HARDWARE_WORDS))
        .then(pl.lit("HW"))
        .when(reason.str.contains(_POD_GONE))
        .then(pl.lit("SOFTWARE"))
        .when(reason.str.contains(_UNKILLABLE))
        .then(pl.lit("UNKNOWN"))
        .otherwise(pl.lit("NODE"))
    )


def events_around(
    ended: pl.DataFrame,
    attempt_nodes: pl.DataFrame,
    events: pl.DataFrame,
    *,
    before_s: float,
    after_s: float,
) -> pl.DataFrame:
    """Reports of attempts' nodes around their ends, within their lives, the worst first.

    Reports that were over before an attempt began cannot have ended it, and are left out: an event before its start, or
    a node state that was left again by then. Reports after a person cancelled it are kept, but explain nothing.

    Events are in order of severity; then what a sensor reported goes before what the scheduler did about it; then the
    nearer to the end goes first.

    Args:
        ended: attempts that ended: the attempt's key, `started_at`, `ended_at`, `state` and `cancelled_by`.
        attempt_nodes: `frames.ATTEMPT_NODES`.
        events: `EVENTS`.
        before_s: how long before the end an event may lie, in seconds.
        after_s: how long after.

    Returns:
        The attempt's key, and of each event on one of its nodes `node`, `ts`, `kind`, `detail`, `gpu`, `code`, `class`,
        `severity`, `evidence`; `explains` (it can be the cause), `informative` (it rules domains out) and `place` (0
        for the worst of the attempt).
    """
    life = ended.select(
        *_KEY,
        pl.col("started_at").alias("_start"),
        pl.col("ended_at").alias("_end"),
        cancelled_by_person().alias("_by"),
    )
    some = prefiltered(life, events, of="_end", at="ts", before_s=before_s, after_s=after_s)
    where = on_their_nodes(some, attempt_nodes).select(*_KEY, "node", "_start", "_end", "_by")
    near = nearby(where, events, of="_end", at="ts", by=("cluster", "node"), before_s=before_s, after_s=after_s)
    pairs = near.filter(since_start("_start"))
    severity = pl.col("severity").replace_strict(_SEVERITIES, default=2, return_dtype=pl.Int64())
    informative = ~pl.col("class").is_in(_SILENT).fill_null(value=False)
    offset = (pl.col("ts") - pl.col("_end")).dt.total_microseconds().abs()
    too_late = pl.col("_by") & (pl.col("ts") > pl.col("_end"))
    return (
        pairs.with_columns(
            _severity=severity,
            _reaction=pl.col("kind").is_in(REACTIONS),
            _offset=offset,
            explains=(severity == 0) & informative & ~too_late,
            informative=informative & ~too_late,
        )
        .sort(
            *_KEY, "_severity", "_reaction", "_offset", "ts", "node", "kind", "code", "gpu", "detail", nulls_last=True
        )
        .with_columns(place=pl.int_range(pl.len()).over(_KEY))
        .drop("_start", "_end", "_by", "_severity", "_reaction", "_offset", "lasts_until")
    )


def on_their_nodes(some: pl.DataFrame, attempt_nodes: pl.DataFrame) -> pl.DataFrame:
    """Some attempts on each of their nodes: of millions of rows those of their jobs are found first, by one column.

    Args:
        some: the attempt's key and more.
        attempt_nodes: `frames.ATTEMPT_NODES`.
    """
    of_jobs = attempt_nodes.join(some.select("job_id").unique(), on="job_id", how="semi")
    return of_jobs.join(some, on=_KEY)


def cancelled_by_person() -> pl.Expr:
    """The attempt was cancelled, and accounting names who did it: what happens afterwards is not why."""
    return (pl.col("state") == "CANCELLED").fill_null(value=False) & pl.col("cancelled_by").is_not_null()


def since_start(start: str) -> pl.Expr:
    """The event (`ts`, `lasts_until`) began once the attempt ran, or still lasted then."""
    lasted = (pl.col("lasts_until") > pl.col(start)).fill_null(value=False)
    return lasted | (pl.col("ts") >= pl.col(start)).fill_null(value=True)


def likeliest_cause(events_near: pl.DataFrame, ended: pl.DataFrame, *, node_first: tuple[str, ...]) -> pl.DataFrame:
    """The event that most likely explains each ending.

    It is the worst that can explain anything (see `events_around`). Where accounting names the node whose failure ended
    the attempt, only what happened there explains it; where the final state means that a node failed, what happened on
    a node that went out of service goes before what happened elsewhere.

    Args:
        events_near: as `events_around` returns it.
        ended: attempts: key, `state` and `failed_node`.
        node_first: final states that mean that a node failed.

    Returns:
        The attempt's key, `node`, `kind`, `detail`, `event_at`, `event_class`, `event_code`, `event_evidence`.
    """
    reaction = pl.col("kind").is_in(REACTIONS)
    out = reaction.any().over(*_KEY, "node") & pl.col("state").is_in(node_first)
    return (
        events_near.filter("explains")
        .join(ended.select(*_KEY, "state", "failed_node"), on=_KEY)
        .filter(pl.col("node") == pl.coalesce("failed_node", "node"))
        .with_columns(_elsewhere=~out)
        .sort(*_KEY, "_elsewhere", "place")
        .unique(_KEY, keep="first", maintain_order=True)
        .select(
            *_KEY,
            "node",
            "kind",
            "detail",
            pl.col("ts").alias("event_at"),
            pl.col("class").alias("event_class"),
            pl.col("code").alias("event_code"),
            pl.col("evidence").alias("event_evidence"),
        )
    )


def domains(symptom: pl.Expr, kind: pl.Expr, klass: pl.Expr, code: pl.Expr) -> pl.Expr:
    """Failure domains that an ending can come from: those of its symptom that the event leaves, in words.

    Args:
        symptom: final state.
        kind: kind of the most informative event; null without one.
        klass: its class.
        code: its code.

    Returns:
        Some of `DOMAINS` with commas between. If the event points to none of the symptom's own domains, the event's:
        it is the better evidence. Null where the scheduler ended the attempt as requested.
    """
    not_program = (kind == "xid") & code.is_in(_NOT_THE_PROGRAM)
    of_state = _masks(symptom, OF_STATE)
    of_event = pl.when(not_program).then(_mask(("software", "hardware"))).otherwise(_masks(klass, OF_CLASS))
    common = of_state & of_event
    left = pl.when((common == 0) & kind.is_not_null()).then(of_event).otherwise(common)
    words = {mask: ",".join(name for name in DOMAINS if mask & _mask((name,))) for mask in range(1, _ANY + 1)}
    return left.replace_strict(words, default=None, return_dtype=pl.String())


def _mask(domains: tuple[str, ...]) -> int:
    """A set of domains as a whole number: a bit for each."""
    return sum(1 << place for place, name in enumerate(DOMAINS) if name in domains)


_ANY = _mask(DOMAINS)


def _masks(name: pl.Expr, domains_of: dict[str, tuple[str, ...]]) -> pl.Expr:
    """The domains of states or classes as whole numbers; all of them for other values."""
    masks = {each: _mask(domains) for each, domains in domains_of.items()}
    return name.replace_strict(masks, default=_ANY, return_dtype=pl.Int64()).fill_null(_ANY)


def in_words(events_near: pl.DataFrame) -> pl.DataFrame:
    """Reports of nodes around each ending, the worst first: the attempt's key and `events`.

    An event is its kind and code, with its node and GPU behind it: `xid 79 (n03 gpu 2)`. Those beyond `EVENTS_SHOWN`
    are counted.
    """
    gpu = pl.col("gpu").fill_null("")
    code = pl.col("code").fill_null("")
    name = pl.when(code != "").then(pl.format("{} {}", "kind", code)).otherwise("kind")
    where = pl.when(gpu != "").then(pl.format("{} gpu {}", "node", gpu)).otherwise("node")
    more = pl.col("all").list.len().cast(pl.Int64) - EVENTS_SHOWN
    shown = pl.col("all").list.head(EVENTS_SHOWN).list.join(", ")
    return (
        events_near.with_columns(_word=pl.format("{} ({})", name, where))
        .unique([*_KEY, "_word"], keep="first", maintain_order=True)
        .group_by(_KEY, maintain_order=True)
        .agg(pl.col("_word").sort_by("place").alias("all"))
        .select(*_KEY, events=pl.when(more > 0).then(pl.format("{} and {} more", shown, more)).otherwise(shown))
    )
