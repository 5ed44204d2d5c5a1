"""Lemon nodes: which nodes fail more often than chance would have it, how sure that is, and what could have been seen.

A node's failures are taken as Poisson at the rate of all the *other* nodes. Job failures alone make a suspect; a lemon
is a node of which a second family of signals (hardware events, or leaving service unplanned) agrees. A list
without nodes means little on a small cluster or at a low rate, so each node carries the factor that would have been
detected there (manual, Failures). The signals are those of Kokolis et al., "Revisiting Reliability in Large-Scale
Machine Learning Research Clusters" (HPCA 2025), section IV.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics import frames
from metrics.exact import exact_sum
from metrics.failures.interruptions import MERGE_S
from metrics.lazy_scipy import special
from metrics.metric import Metric
from metrics.numeric import finite_column
from metrics.statistics import FloatArray, adjusted, p_at_least
from metrics.units import DAY_S

if TYPE_CHECKING:
    from datetime import datetime

WINDOW_DAYS: Final = 28
"""Days that a node is judged by."""

MIN_FAILURES: Final = 3
"""Fewer failures in 28 days make no lemon, however unlikely they are."""

LEVEL: Final = 0.05
"""False discovery rate of the flags (Benjamini-Hochberg), and level at which another family of signals agrees."""

POWER: Final = 0.8
"""A factor counts as detectable if a node that fails so much more often is flagged in so many cases."""

JOBS, HARDWARE, OUT_OF_SERVICE = "jobs", "hardware", "out_of_service"
"""Families of signals."""

OWN_REASON: Final = r"(?i)^trackside:"
"""Nodes that were drained on our advice did not leave service by themselves: that is no evidence."""

_NODE = ["cluster", "node"]

EXPOSURE: frames.Schema = {"cluster": frames.TEXT, "node": frames.TEXT, "present_gpu_s": frames.NUMBER,
                           "ran_gpu_s": frames.NUMBER}  # fmt: skip
"""A node in a window: GPU-seconds that it was there, and those that attempts ran on it."""

HELD: frames.Schema = {
    "cluster": frames.TEXT,
    "run_id": frames.TEXT,
    "attempt_no": frames.COUNT,
    "ended_at": frames.TIME,
    "node": frames.TEXT,
}
"""A node of an attempt that was interrupted without one node to blame."""

KINDS: frames.Schema = {"cluster": frames.TEXT, "node": frames.TEXT, "kind": frames.TEXT, "code": frames.TEXT}
"""A critical kind of health event that a node reported in a window."""

EXCLUSIONS: frames.Schema = {"cluster": frames.TEXT, "node": frames.TEXT, "excluded_by": frames.COUNT}
"""Jobs whose users excluded a node."""


@dataclass(frozen=True)
class Signals:
    """Further signals of nodes, of one cluster.

    Attributes:
        kinds: `KINDS`, within the window.
        states: `frames.NODE_STATES`.
        exclusions: `EXCLUSIONS`, within the window.
    """

    kinds: pl.DataFrame
    states: pl.DataFrame
    exclusions: pl.DataFrame


def lemon_nodes(
    exposure: pl.DataFrame,
    interruptions: pl.DataFrame,
    unblamed: pl.DataFrame,
    signals: Signals,
    *,
    since: datetime,
    until: datetime,
) -> pl.DataFrame:
    """Every node of a cluster against what chance would give, the worst first.

    Args:
        exposure: `EXPOSURE` of one cluster's nodes within the window.
        interruptions: `frames.INTERRUPTIONS`; those by infrastructure that ended within the window count.
        unblamed: `HELD`, of those of them that have no node to blame.
        signals: the other families.
        since: window from.
        until: window to.

    Returns:
        `cluster`, `node`, `rank` (1 is the worst), and the columns of the table `node_scores`, with `n_nodes`,
        `flag_at` (so many failures would have been too many for chance), `detectable_per_gpu_day`
        (`detectable_factor` as a rate), `rate_per_gpu_day`, `single_rate_per_gpu_day`.

        `failures` are incidents that name the node: interruptions within 15 minutes are one, so a node that takes
        eight small jobs with it fails once. `expected` is the rate of the others times its exposure; `p_value` and
        `q_value` as `p_above_rest` and `adjusted` have them; null where it is unknown: nothing ran on the node,
        or only on it. `charged` adds to the failures those that name no node, by 1/n to each node of the attempt.
        `rate_eb` is the charged rate drawn towards the cluster's (`shrunken`); a cluster whose nodes do not differ by
        more than chance has one rate for all.
    """
    within = frames.ended_in(since, until)
    failed = interruptions.filter(within & (pl.col("class") == "infrastructure"))
    table = (
        exposure.join(_incidents(failed), on=_NODE, how="left")
        .join(_shares(unblamed.filter(within)), on=_NODE, how="left")
        .join(
            signals.kinds.group_by(_NODE).agg(hardware_kinds=pl.struct("kind", "code").n_unique()), on=_NODE, how="left"
        )
        .join(_times_out(signals.states, since, until), on=_NODE, how="left")
        .join(signals.exclusions, on=_NODE, how="left")
        .with_columns(
            pl.col(_COUNTED).fill_null(0).cast(pl.Int64),
            charged=pl.col("failures").fill_null(0) + pl.col("charged").fill_null(0.0),
            exposure_gpu_days=pl.col("ran_gpu_s") / DAY_S,
            n_nodes=pl.len(),
        )
        .sort(_NODE)
    )
    least = least_failures((until - since).total_seconds() / DAY_S)
    judged = _verdicts(_tested(table, least), least)
    ordered = judged.sort(
        pl.col("verdict").replace_strict(_ORDER, return_dtype=pl.Int64), pl.col("rate_eb"), pl.col("p_value"),
        pl.col("failures"), pl.col("node"), descending=[False, True, False, True, False], nulls_last=True,
    )  # fmt: skip
    return ordered.with_columns(
        rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int64),
        window_from=frames.instant(since),
        window_until=frames.instant(until),
    ).drop("present_gpu_s", "ran_gpu_s")


_COUNTED = ["failures", "single_node_failures", "multi_node_failures", "hardware_kinds", "out_count", "excluded_by"]
_ORDER = {"lemon": 0, "suspect": 1, "none": 2}


def least_failures(days: float) -> int:
    """Failures that a node must have had to be flagged in a window: 3 in 28 days, as many for less, more for more.

    >>> [least_failures(days) for days in (1, 28, 31, 56)]
    [3, 3, 3, 6]
    """
    return max(MIN_FAILURES, round(MIN_FAILURES * days / WINDOW_DAYS))


# --- chance --------------------------------------------------------------------------------------------------------


def p_above_rest(counts: FloatArray, exposure: FloatArray) -> FloatArray:
    """Probability that each gets its count or more by chance, if it fails as the others do.

    The larger of two: the upper tail of Poisson(r E) with r the rate of all others, which is the definition; and given
    the total, the upper tail of Binomial(total, share of the exposure), which allows for r being no more than an
    estimate. They differ where the others have failed a few times only. nan without exposure, or if only it has any.

    >>> p_above_rest(np.array([4.0, 1.0, 0.0]), np.array([1.0, 9.0, 10.0])).round(6).tolist()
    [3e-05, 0.962097, 1.0]
    """
    others, elsewhere = counts.sum() - counts, exposure.sum() - exposure
    testable = (exposure > 0) & (elsewhere > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = others / elsewhere * exposure
        share = exposure / exposure.sum()
    tail = np.full(len(counts), np.nan)
    tail[testable] = _tail(counts[testable], expected[testable], others[testable], share[testable])
    return tail


def _tail(counts: FloatArray, expected: FloatArray, others: FloatArray, share: FloatArray) -> FloatArray:
    """The larger of the Poisson and the binomial tail, elementwise."""
    some = np.maximum(counts, 1)  # of none or more the probability is 1
    conditional = np.where(counts > 0, special.betainc(some, others + 1, share), 1.0)
    return np.maximum(p_at_least(counts, expected), conditional)


def flag_from(counts: FloatArray, exposure: FloatArray, least: int = MIN_FAILURES) -> FloatArray:
    """From how many failures on each would be flagged, if it alone failed too often; nan where nothing can be tested.

    The smallest count of at least `least` whose `p_above_rest` is at most 0.05 / n, which is what Benjamini-Hochberg
    requires of the smallest p; what the others did stays as it is.
    """
    others, elsewhere = counts.sum() - counts, exposure.sum() - exposure
    testable = (exposure > 0) & (elsewhere > 0)
    needed = np.full(len(counts), np.nan)
    if not testable.any():
        return needed
    level = LEVEL / testable.sum()
    rest, share = others[testable], exposure[testable] / exposure.sum()
    expected = rest / elsewhere[testable] * exposure[testable]
    low = np.full(len(rest), float(least)) - 1  # too few, or below the required number
    high = np.maximum(float(least), 1.0) * np.ones(len(rest))
    while (short := _tail(high, expected, rest, share) > level).any():
        low, high = np.where(short, high, low), np.where(short, high * 2, high)
    while ((high - low) > 1).any():
        middle = np.floor((low + high) / 2)
        short = _tail(middle, expected, rest, share) > level
        wide = high - low > 1
        low, high = np.where(wide & short, middle, low), np.where(wide & ~short, middle, high)
    needed[testable] = high
    return needed


def detectable_count(flag_at: FloatArray, power: float = POWER) -> FloatArray:
    """Mean number of failures of a node that reaches `flag_at` with that probability: a quantile of the gamma law.

    >>> float(detectable_count(np.array([3.0])).round(3)[0])
    4.279
    """
    return np.asarray(special.gammaincinv(flag_at, power), dtype=float)


# --- rank ----------------------------------------------------------------------------------------------------------


def shrunken(counts: FloatArray, charged: FloatArray, exposure: FloatArray) -> FloatArray:
    """Empirical-Bayes rates: `(charged + alpha) / (E + beta)`, each node's own rate drawn towards the cluster's.

    The nodes' rates are taken as Gamma(alpha, beta). Its variance is what the counts vary more than Poisson counts of
    one rate would, by moments: `(sum E_i (k_i/E_i - m)^2 - (n - 1) m) / (E - sum E_i^2 / E)` (Marshall, Applied
    Statistics 40, 1991; with the unbiased weights). Its mean is the charged rate of all. Where the counts do not vary
    more than by chance, alpha and beta are infinite: all nodes have the cluster's rate.

    Args:
        counts: whole failures, for the variance.
        charged: failures with the shares of those that name no node, for mean and rank.
        exposure: GPU-days; nodes without any get the cluster's rate.

    >>> shrunken(np.array([9.0, 0.0, 0.0]), np.array([9.0, 0.0, 0.0]), np.ones(3)).round(2).tolist()
    [8.33, 0.33, 0.33]
    >>> shrunken(np.array([3.0, 3.0, 3.0]), np.array([3.0, 3.0, 3.0]), np.ones(3)).round(2).tolist()
    [3.0, 3.0, 3.0]
    """
    total = exposure.sum()
    if not total > 0:
        return np.full(len(counts), np.nan)
    ran = exposure > 0
    mean, of_all = counts.sum() / total, charged.sum() / total
    spread = np.sum(exposure[ran] * (counts[ran] / exposure[ran] - mean) ** 2) - (ran.sum() - 1) * mean
    room = total - np.sum(exposure**2) / total
    if not (spread > 0 and room > 0 and mean > 0):
        return np.full(len(counts), of_all)
    alpha = mean**2 / (spread / room)
    beta = alpha / of_all
    return np.asarray((charged + alpha) / (exposure + beta))


# --- tables --------------------------------------------------------------------------------------------------------


def _incidents(failed: pl.DataFrame) -> pl.DataFrame:
    """Failures of each node: incidents that name it, those of jobs on one node and on several apart."""
    alone = pl.col("widest") <= 1
    return (
        failed.filter(pl.col("node").is_not_null())
        .group_by(*_NODE, "incident")
        .agg(widest=pl.col("n_nodes").max())
        .group_by(_NODE)
        .agg(failures=pl.len(), single_node_failures=alone.sum(), multi_node_failures=(~alone).sum())
    )


def _shares(unblamed: pl.DataFrame) -> pl.DataFrame:
    """Share of each node in the failures that name no node: 1/n of an attempt on n nodes."""
    return (
        unblamed.unique(["cluster", "run_id", "attempt_no", "node"])
        .with_columns(charged=1.0 / pl.len().over("cluster", "run_id", "attempt_no"))
        .group_by(_NODE)
        .agg(exact_sum(pl.col("charged"), places=18))
    )


def _times_out(states: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    """Count of unplanned exits from service by node in the window; states within 15 minutes of each other are one."""
    own = pl.col("reason").fill_null("").str.contains(OWN_REASON)
    out = states.filter(
        pl.col("state").is_in(["down", "drained"]) & ~pl.col("planned").fill_null(value=False) & ~own
    ).sort(*_NODE, "started_at")
    low, high = frames.instant(since), frames.instant(until)
    over = pl.max_horizontal(pl.col("ended_at").fill_null(high), "started_at")
    reached = over.cum_max().shift(1).over(_NODE)
    begins = reached.is_null() | (pl.col("started_at") > reached + pl.duration(microseconds=round(MERGE_S * 1e6)))
    inside = (pl.col("started_at") >= low) & (pl.col("started_at") < high)
    return out.filter(begins).filter(inside).group_by(_NODE).agg(out_count=pl.len())


def _tested(table: pl.DataFrame, least: int) -> pl.DataFrame:
    """With the p-values and what follows from them."""
    failures, exposed = _floats(table, "failures"), _floats(table, "exposure_gpu_days")
    present_gpu_s = _floats(table, "present_gpu_s")
    p_values = p_above_rest(failures, exposed)
    flag_at = flag_from(failures, exposed, least)
    elsewhere = exposed.sum() - exposed
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.where(elsewhere > 0, (failures.sum() - failures) / elsewhere * exposed, np.nan)
        needed = detectable_count(flag_at)
        columns = {
            "expected": expected,
            "p_value": p_values,
            "q_value": adjusted(p_values),
            "flag_at": flag_at,
            "detectable_factor": needed / expected,
            "detectable_per_gpu_day": needed / exposed,
            "rate_eb": shrunken(failures, _floats(table, "charged"), exposed),
            "rate_per_gpu_day": failures / exposed,
            "single_rate_per_gpu_day": _floats(table, "single_node_failures") / exposed,
            _P_HARDWARE: p_above_rest(_floats(table, "hardware_kinds"), present_gpu_s),
            _P_OUT: p_above_rest(_floats(table, "out_count"), present_gpu_s),
        }
    return table.with_columns(finite_column(name, values) for name, values in columns.items())


_P_HARDWARE, _P_OUT = "_p_hardware", "_p_out"


def _verdicts(tested: pl.DataFrame, least: int) -> pl.DataFrame:
    """Families of signals that agree, and the resulting verdict on a node."""
    often = (pl.col("q_value") < LEVEL).fill_null(value=False) & (pl.col("failures") >= least)
    ill = (pl.col(_P_HARDWARE) < LEVEL).fill_null(value=False) & (pl.col("hardware_kinds") > 0)
    out = (pl.col(_P_OUT) < LEVEL).fill_null(value=False) & (pl.col("out_count") > 0)
    families = pl.concat_list(
        pl.when(agrees).then(pl.lit(name)).otherwise(pl.lit(None, dtype=pl.String))
        for agrees, name in ((often, JOBS), (ill, HARDWARE), (out, OUT_OF_SERVICE))
    ).list.drop_nulls()
    suspicious = pl.when(often & (ill | out)).then(pl.lit("lemon")).when(often).then(pl.lit("suspect"))
    shared = pl.col("charged") - pl.col("failures")
    return tested.with_columns(
        families=families,
        verdict=suspicious.otherwise(pl.lit("none")),
        note=pl.concat_str(
            pl.when(pl.col("exposure_gpu_days") <= 0).then(pl.lit("no attempt ran on it: cannot tell")),
            pl.when(often & ~ill & ~out).then(pl.lit("job failures alone: no second family of signals agrees")),
            pl.when(shared > 1e-9).then(
                pl.format("{} of failures that name no node charged to it, for the rank only", shared.round(2))
            ),
            separator="; ",
            ignore_nulls=True,
        ).replace("", None),
    ).drop(_P_HARDWARE, _P_OUT)


def _floats(table: pl.DataFrame, name: str) -> FloatArray:
    return table[name].cast(pl.Float64).to_numpy()


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="lemon_q",
        unit="ratio",
        summary="How likely a node that failed so often is no worse than the others, all nodes tested together.",
        formula=(
            "p: upper tail of Poisson(rate of the other nodes x its GPU-days) at its incidents, not below the exact "
            "binomial tail given the total; q: p adjusted by Benjamini-Hochberg over all nodes. lemon: q < 0.05, 3 or "
            "more "
            "in 28 days, and hardware events or unplanned leaving of service agree (more than of the others, p < "
            "0.05); "
            "suspect: job failures alone"
        ),
        query="node_exposure",
        function=lemon_nodes,
        interval=(
            "a test, no interval: false discovery rate 5 %; detectable_factor is what would be seen in 8 of 10 cases"
        ),
        source="our definitions 7.4; Kokolis et al. (HPCA 2025) section IV; Benjamini and Hochberg 1995",
    ),
    Metric(
        name="node_failure_rate_eb",
        unit="1/gpu_d",
        summary=(
            "A node's failure rate, drawn towards the cluster's as far as chance suggests: what nodes are ranked by."
        ),
        formula=(
            "(failures + 1/n of each that names no node + alpha) / (GPU-days that attempts ran on it + beta); alpha "
            "and "
            "beta by moments of the negative binomial"
        ),
        query="node_exposure",
        function=shrunken,
        interval="none: for ranking",
        source="our definitions 7.4; Marshall, Applied Statistics 40, 1991",
    ),
)
