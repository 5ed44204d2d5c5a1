"""The questions of `trackside show` about what GPUs did: utilisation, idle time, energy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.telemetry.activity_days import stored_activity
from app.results.telemetry.gpu_activity import VERIFICATION, Activity
from app.results.telemetry.occupancy import NO_SUBJECT, Known, computed_window, known, whole
from app.results.usage import recorded_use
from app.show.answer import MOST_EXPLAINED, Answer, Question
from app.show.recorded_use import by_accounting, notes, recorded_rows, sentence, together
from app.show.registry import question
from app.show.sentences import gpu_hours, percent
from app.show.telemetry import hourly_notes, none_left
from metrics import frames
from metrics.telemetry.utilisation import MEANS, utilisation
from metrics.usage.activity import TELEMETRY

if TYPE_CHECKING:
    from app.config.settings import Rules
    from app.window import Window
    from queries.warehouse import Reader

OF_USERS: Final = {"cluster", "user"}
"""For these the owner of a GPU is known also on nodes that several attempts of one user share."""

LITTLE: Final = 0.95
"""Below this coverage the answer has a note on what the means are over."""


@question(
    "utilisation",
    "what allocated GPUs did",
    help="what allocated GPUs did: utilisation, tensor activity, idle GPU-hours, power, energy (by telemetry, and\n"
    "otherwise by accounting)\n"
    "--by user, account, partition, run, attempt",
    by=("cluster", "user", "account", "partition", "run", "attempt"),
    position=13,
)
def gpu_utilisation(source: Reader, window: Window, question: Question) -> Answer:
    """What allocated GPUs did, by whom they were allocated to."""
    by = question.dimension
    facts = known(source, window.cluster, observed=_is_observed(source, window.cluster))
    activity, queries = _activity(source, window, facts, of_users=by in OF_USERS)
    named = facts.attempts.with_columns(_subject(by, window.cluster).alias("subject"))
    key = ["subject", "job_id", "submitted_at", "user", "name"] if by == "attempt" else ["subject"]
    held = _allocated(source, window, named)
    checks = _total(held.filter(VERIFICATION), "allocated_s")
    mine = pl.DataFrame(schema={name: named.schema[name] for name in key})
    if activity is not None:
        mine = _with_users(activity, named, key, by, window.cluster)
    seen = None if activity is None else activity.attempts
    recorded, others = recorded_rows(source, window, held.filter(~pl.col(VERIFICATION)), seen, key)
    rows = together(utilisation(mine, others.select(*key, "allocated_s"), key), recorded, key)
    rows = rows.filter((pl.col("allocated_s") > 0) | (pl.col("observed_s") > 0)).select(
        pl.lit(window.cluster).alias("cluster"),
        pl.lit("gpu_util").alias("metric"),
        pl.all(),
        (pl.col("energy_j") / 3.6e6).alias("energy_kwh"),
    )
    observed = recorded.height or _total(rows, "observed_s") + _total(rows, "unattributed_s") > 0
    sampled = rows.filter(pl.col("evidence") == TELEMETRY)
    return Answer(
        "What allocated GPUs did, the most idle time first",
        rows if observed else rows.clear(),
        _columns(rows, by),
        headline=_sentences(_headline(sampled) + _most_idle(sampled, by), sentence(rows)) if observed else "",
        ranked=(
            *("allocated_s", "evidence", "idle_s", "idle_share", "gpu_util", "busy_most", "tensor_active", "coverage"),
            "user",
        ),
        metrics=("gpu_util", "tensor_active", "idle_gpus", "telemetry_coverage"),
        queries=(*queries, "allocated_to_attempts", "usage_of_attempts", "summaries_of_attempts"),
        notes=(*_notes(source, window, sampled, facts.rules, checks), *notes(rows)) if observed else (),
        when_empty="" if observed else _nothing(source, window),
        parameters={"dimension": by},
        worth_explaining=pl.int_range(pl.len()) < MOST_EXPLAINED if by in {"run", "attempt"} else None,
        parts={
            "metric": "metric",
            "subject": "subject",
            "evidence": "evidence",
            "value": "gpu_util",
            "numerator": "gpu_util_sum",
            "denominator": "gpu_util_s",
            "tensor_active": "tensor_active",
            "tensor_numerator": "tensor_active_sum",
            "tensor_denominator": "tensor_active_s",
            "idle_gpu_s": "idle_s",
            "idle_of_gpu_s": "judged_s",
            "observed_gpu_s": "observed_s",
            "allocated_gpu_s": "allocated_s",
            "unattributed_gpu_s": "unattributed_s",
            "busy_at_most_gpu_s": "busy_most_s",
            "busy_at_most_of_gpu_s": "bounded_s",
        },
    )


def _is_observed(source: Reader, cluster: str) -> bool:
    """Whether telemetry, or accounting, records anything of what GPUs did."""
    sampled = not source.query("gpu_sample_days", cluster=cluster).is_empty()
    return sampled or not recorded_use(source, cluster).is_empty()


def _sentences(*texts: str) -> str:
    return " ".join(filter(None, texts))


def _total(rows: pl.DataFrame, name: str) -> float:
    return float(rows[name].sum())


def _subject(by: str, cluster: str) -> pl.Expr:
    if by == "cluster":
        return pl.lit(cluster)
    return pl.col("job_id") if by == "attempt" else pl.col(by).fill_null(NO_SUBJECT)


def _activity(
    source: Reader, window: Window, facts: Known, *, of_users: bool
) -> tuple[Activity | None, tuple[str, ...]]:
    """What attempts did, and the queries behind it: as stored of all computed time; of another window by day."""
    if whole(source, window):
        stored = source.query("attempt_activity", cluster=window.cluster)
        if not of_users:
            return Activity(stored, pl.DataFrame()), ("attempt_activity",)
        if not stored["unclear_s"].null_count():
            users = source.query("user_activity", cluster=window.cluster)
            return Activity(stored, users), ("attempt_activity", "user_activity")
    return stored_activity(source, window, computed_window(source, window.cluster), facts.rules, facts.held)


def _with_users(activity: Activity, named: pl.DataFrame, key: list[str], by: str, cluster: str) -> pl.DataFrame:
    """Attempts with whose they are; of users, what nodes did that attempts of one user shared, next to them."""
    own = activity.attempts.drop("user", "partition", VERIFICATION, strict=False)
    attempts = own.join(named, on=list(frames.ATTEMPT_KEY)).filter(~pl.col(VERIFICATION))
    if by not in OF_USERS:
        return attempts.drop("partition", *({"user"} - set(key)))
    users = activity.users.with_columns(_subject(by, cluster).alias("subject"))
    own_sums = attempts.with_columns(unattributed_s="unclear_s")
    sums = [name for name in own_sums.columns if name.endswith(("_s", "_sum", "_j"))]
    return pl.concat([own_sums.select("subject", *sums), users], how="diagonal_relaxed")


def _allocated(source: Reader, window: Window, named: pl.DataFrame) -> pl.DataFrame:
    held = source.query("allocated_to_attempts", **window.parameters).with_columns(cluster=pl.lit(window.cluster))
    return held.join(named, on=list(frames.ATTEMPT_KEY))


_MEANS_SHOWN: Final = {
    "gpu_util": "GPU util",
    "gr_engine_active": "engine",
    "sm_active": "SM",
    "tensor_active": "tensor",
    "dram_active": "DRAM",
}


def _headline(rows: pl.DataFrame) -> str:
    """How much of the time that samples cover GPUs were idle."""
    allocated, observed, idle = (_total(rows, f"{name}_s") for name in ("allocated", "observed", "idle"))
    if not observed or not allocated:
        return ""
    return (
        f"Allocated GPUs were idle in {percent(idle / observed)} of the time that samples cover, which is "
        f"{percent(min(observed / allocated, 1.0))} of what was allocated."
    )


def _most_idle(rows: pl.DataFrame, by: str) -> str:
    """Whose GPUs were idle longest."""
    idle = rows.filter(pl.col("idle_s") > 0).sort("idle_s", descending=True, maintain_order=True)
    if by == "cluster" or rows.height == 1 or idle.is_empty():
        return ""
    first = idle.row(0, named=True)
    what = "job" if by == "attempt" else by
    return f" Most idle time: {what} {first['subject']}, {gpu_hours(first['idle_s'])}."


def _columns(rows: pl.DataFrame, by: str) -> dict[str, tuple[str, str]]:
    """The shown rows: quantities that samples cover less than half of the time are left out."""
    half = _total(rows, "observed_s") / 2
    means = {name: (_MEANS_SHOWN[name], "ratio") for name in MEANS if _total(rows, f"{name}_s") > half or not half}
    owner = {"submitted_at": ("submitted", "time"), "user": ("user", "text"), "name": ("name", "text")}
    unclear = {"unattributed_s": ("unattributed GPU-h", "gpu_h")} if _total(rows, "unattributed_s") else {}
    power = (
        {"power_w": ("W per GPU", "number"), "energy_kwh": ("kWh", "number")}
        if _total(rows, "power_s") or not half
        else {}
    )
    recorded = by_accounting(rows)
    evidence = {"evidence": ("evidence", "text")} if recorded.height else {}
    bounds = {"busy_most": ("busy at most", "ratio")} if _total(recorded, "bounded_s") else {}
    return {
        "subject": ("job" if by == "attempt" else by, "text"),
        **evidence,
        **(owner if by == "attempt" else {}),
        "allocated_s": ("allocated GPU-h", "gpu_h"),
        "coverage": ("seen", "ratio"),
        "idle_s": ("idle GPU-h", "gpu_h"),
        "idle_share": ("idle", "ratio"),
        **means,
        **bounds,
        **power,
        **unclear,
    }


def _notes(source: Reader, window: Window, rows: pl.DataFrame, rules: Rules, checks: float) -> tuple[str, ...]:
    notes = [
        "seen: share of the allocated GPU-time that samples cover; all else is over what was seen. "
        f"idle: tensor activity below {rules.active_tensor:g}, else engine activity below {rules.active_gr_engine:g}, "
        f"else GPU utilisation of at most {rules.active_gpu_util:g}."
    ]
    allocated, observed, unclear = (_total(rows, f"{name}_s") for name in ("allocated", "observed", "unattributed"))
    if allocated and observed / allocated < LITTLE:
        notes.append(
            f"Telemetry covers {percent(observed / allocated)} of the allocated GPU-time here: what GPUs did in "
            "the rest is unknown."
        )
    if unclear:
        notes.append(
            f"{unclear / 3600:,.1f} GPU-h are unattributed: seen on nodes that several share, of parts of GPUs, or "
            "known by hours only in which jobs came or went. Whose they were is unknown, so no mean has them."
        )
    if checks:
        notes.append(
            f"Node checks held {checks / 3600:,.0f} GPU-h more; they are no utilisation and left out (config: "
            "rules.other_work)."
        )
    notes += hourly_notes(source.query("gpu_telemetry_days", **window.parameters), "a job came to the node or went")
    return tuple(notes)


def _nothing(source: Reader, window: Window) -> str:
    """Why there are no samples, and what to do."""
    days = source.query("gpu_sample_days", cluster=window.cluster)["day"]  # the last one first
    if days.is_empty():
        return none_left(source, window, "gpu", "GPUs")
    return (
        f"No sample of GPUs that were allocated in this window. There is telemetry of {days[-1]} to {days[0]}; if that "
        "is within the window: does it name nodes as Slurm does (trackside status warns), and was `trackside compute` "
        "run since?"
    )
