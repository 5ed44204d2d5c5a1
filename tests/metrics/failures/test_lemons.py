"""Lemon nodes: chance, power, coverage on generated clusters, and what counts as a failure or a signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.failures.lemons import (
    EXCLUSIONS,
    EXPOSURE,
    HELD,
    KINDS,
    Signals,
    detectable_count,
    flag_from,
    lemon_nodes,
    p_above_rest,
    shrunken,
)
from tests.metrics.failures import slow_lemons
from tests.metrics.oracles.lemons import power_of
from tests.metrics.tables import Row, at, interruption, rows

if TYPE_CHECKING:
    from random import Random

DAYS = 28
UNTIL = at(24 * DAYS)
RATE = 2.13 / 1000
"""Failures per node-day: CoreWeave's 3,748.25 GPU-days per failure, of nodes with 8 GPUs (definitions 7.4)."""

NONE = pl.DataFrame


def node_name(number: int) -> str:
    return f"n{number:04d}"


def exposed(nodes: dict[str, float]) -> pl.DataFrame:
    """Nodes of 8 GPUs that attempts ran on for so many days of the window."""
    result = [
        {"cluster": "c", "node": node, "present_gpu_s": 8 * 86_400.0 * DAYS, "ran_gpu_s": 8 * 86_400.0 * days}
        for node, days in nodes.items()
    ]
    return pl.DataFrame(result, schema=EXPOSURE)


def failed(node: str | None, hours: float, **more: object) -> Row:
    """An interruption by infrastructure that names this node."""
    return dict(interruption(f"{node}@{hours}", hours - 1, hours, node=node)) | more


def interrupted(*result: Row) -> pl.DataFrame:
    return rows(frames.INTERRUPTIONS, *result)


def out(node: str, hours: float, lasting: float | None = 2.0, **more: object) -> Row:
    ended = None if lasting is None else at(hours + lasting)
    return {
        "cluster": "c",
        "node": node,
        "started_at": at(hours),
        "ended_at": ended,
        "state": "down",
        "reason": "Not responding",
        "planned": False,
    } | more


def signals(
    kinds: list[tuple[str, str, str]] | None = None,
    states: list[Row] | None = None,
    excluded: pl.DataFrame | None = None,
) -> Signals:
    seen = [{"cluster": "c", "node": node, "kind": kind, "code": code} for node, kind, code in kinds or []]
    return Signals(
        pl.DataFrame(seen, schema=KINDS),
        rows(frames.NODE_STATES, *(states or [])),
        NONE(schema=EXCLUSIONS) if excluded is None else excluded,
    )


def scored(
    exposure: pl.DataFrame, events: pl.DataFrame, reported: Signals | None = None, unblamed: pl.DataFrame | None = None
) -> pl.DataFrame:
    held = NONE(schema=HELD) if unblamed is None else unblamed
    return lemon_nodes(exposure, events, held, reported or signals(), since=at(), until=UNTIL)


def by_node(scores: pl.DataFrame) -> dict[str, dict[str, Any]]:
    return {row["node"]: row for row in scores.to_dicts()}


ALL_WELL = {node_name(number): float(DAYS) for number in range(40)}
THRICE = [failed("n0000", hours) for hours in (50, 200, 500)]


# --- golden numbers: definitions 7.4 ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "flag_at", "published"),
    [(128, 3, {20: 0.12, 50: 0.57, 100: 0.94}), (2048, 4, {20: 0.03, 50: 0.35, 100: 0.85})],
)
def test_a_lemon_is_flagged_as_often_as_defined(nodes: int, flag_at: int, published: dict[int, float]) -> None:
    mean = RATE * DAYS
    counts = np.zeros(nodes)
    counts[1 : 1 + round(mean * (nodes - 1))] = 1  # what the others did, as expected
    needed = flag_from(counts, np.full(nodes, float(DAYS)))[0]
    assert needed == flag_at
    for factor, power in published.items():
        assert power_of(factor, mean, needed) == pytest.approx(power, abs=0.005)


def test_detectable_factor_is_flagged_in_8_of_10_cases() -> None:
    for flag_at in (3.0, 4.0, 9.0):
        factor = float(detectable_count(np.array([flag_at]))[0]) / 0.06
        assert power_of(factor, 0.06, flag_at) == pytest.approx(0.8)


# --- coverage on generated clusters ----------------------------------------------------------------------------------

LEMONS = 10
FACTOR = 100.0
CLUSTERS = range(12)


def generated(seed: int, *, nodes: int = 2048, lemons: int = LEMONS) -> tuple[set[str], pl.DataFrame]:
    """The lemons of a simulated cluster and its scores: Poisson failures, some of which show in other signals.

    Half of the failures show an XID, two thirds take the node out of service; one sound node in 50 is drained or tells
    of an XID for reasons of its own, and exposures differ.
    """
    chance = np.random.default_rng([2026, seed])
    odd = set(chance.choice(nodes, lemons, replace=False).tolist())
    days = chance.uniform(0.8, 1.0, nodes) * DAYS
    mean = RATE * days * np.where(np.isin(np.arange(nodes), list(odd)), FACTOR, 1.0)
    events, kinds, states = [], [], []
    for number, count in enumerate(chance.poisson(mean)):
        name = node_name(number)
        for hours in chance.uniform(2, 24 * DAYS, count):
            events.append(failed(name, float(hours)))
            if chance.random() < 0.5:
                kinds.append((name, "xid", str(chance.choice([79, 94, 48]))))
            if chance.random() < 2 / 3:
                states.append(out(name, float(hours)))
        if chance.random() < 0.02:
            states.append(out(name, float(chance.uniform(0, 24 * DAYS)), state="drained", reason="disk"))
        if chance.random() < 0.02:
            kinds.append((name, "xid", "94"))
    exposure = exposed(dict(zip(map(node_name, range(nodes)), days.tolist(), strict=True)))
    return {node_name(number) for number in odd}, scored(exposure, interrupted(*events), signals(kinds, states))


@pytest.fixture(scope="module")
def clusters() -> list[tuple[set[str], pl.DataFrame]]:
    return [generated(seed) for seed in CLUSTERS]


def flags(scores: pl.DataFrame) -> set[str]:
    return set(scores.filter(pl.col("verdict") == "lemon")["node"])


def test_eight_of_ten_lemons_at_100_times_the_rate_are_flagged(
    clusters: list[tuple[set[str], pl.DataFrame]],
) -> None:
    result = sum(len(flags(scores) & lemons) for lemons, scores in clusters)
    assert result / (LEMONS * len(clusters)) >= 0.8


def test_nine_in_ten_flagged_nodes_are_lemons(clusters: list[tuple[set[str], pl.DataFrame]]) -> None:
    flagged = sum(len(flags(scores)) for _, scores in clusters)
    right = sum(len(flags(scores) & lemons) for lemons, scores in clusters)
    assert flagged > 0
    assert right / flagged >= 0.9


def test_list_reports_100_times_the_rate_as_detectable(
    clusters: list[tuple[set[str], pl.DataFrame]],
) -> None:
    for _, scores in clusters:
        assert 40 < scores["detectable_factor"].median() < FACTOR  # type: ignore[operator]  # a number, of numbers


def test_lemons_lead_the_empirical_bayes_ranking(clusters: list[tuple[set[str], pl.DataFrame]]) -> None:
    first = [
        len(lemons & set(scores.sort("rate_eb", descending=True)["node"].head(LEMONS))) for lemons, scores in clusters
    ]
    assert sum(first) / (LEMONS * len(clusters)) >= 0.9


def test_cluster_without_lemons_is_rarely_flagged() -> None:
    alarms = sum(bool(flags(generated(100 + seed, nodes=256, lemons=0)[1])) for seed in range(40))
    assert alarms <= 40 * 0.05 + 2


# --- a slow twin -----------------------------------------------------------------------------------------------------


@st.composite
def random_clusters(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(1, 7))
    names = [node_name(number) for number in range(n)]
    pick = st.sampled_from(names)
    exposure = exposed({name: draw(st.sampled_from([0.0, 3.0, 20.0, 28.0])) for name in names})
    hours = st.integers(2, 24 * DAYS - 1)
    struck = draw(
        st.lists(st.tuples(pick | st.none(), hours, st.sampled_from(["infrastructure", "user"])), max_size=30)
    )
    events = [failed(node, at_, incident=f"{node}{at_ // 40}", **{"class": kind}) for node, at_, kind in struck]
    held = [
        {"cluster": "c", "run_id": f"r{run}", "attempt_no": 1, "ended_at": at(5), "node": node}
        for run in range(draw(st.integers(0, 3)))
        for node in draw(st.sets(pick, min_size=1))
    ]
    times_out = draw(st.dictionaries(pick, st.integers(1, 4)))
    kinds = draw(st.lists(st.tuples(pick, st.sampled_from(["xid", "ib"]), st.sampled_from(["1", "2"])), max_size=6))
    return {
        "exposure": exposure,
        "events": interrupted(*events),
        "held": pl.DataFrame(held, schema=HELD),
        "kinds": kinds,
        "out": times_out,
    }


def of_random(cluster: dict[str, Any]) -> tuple[Signals, pl.DataFrame]:
    states = [out(node, 10 + 48 * time) for node, times in cluster["out"].items() for time in range(times)]
    reported = signals(cluster["kinds"], states)
    return reported, scored(cluster["exposure"], cluster["events"], reported, cluster["held"])


@settings(max_examples=60, deadline=None)
@given(random_clusters())
def test_scores_agree_with_a_slow_twin(cluster: dict[str, Any]) -> None:
    reported, scores = of_random(cluster)
    slow = slow_lemons.judged(cluster["exposure"], cluster["events"], cluster["held"], reported.kinds, cluster["out"])
    assert scores.height == len(slow)
    for row in scores.to_dicts():
        twin = slow[row["node"]]
        assert row["failures"] == twin["failures"]
        assert row["charged"] == pytest.approx(twin["charged"])
        assert row["p_value"] == (None if twin["p"] is None else pytest.approx(twin["p"], rel=1e-9, abs=1e-300))
        assert row["q_value"] == (pytest.approx(twin["q"], rel=1e-9, abs=1e-300) if "q" in twin else None)
        assert row["verdict"] == twin["verdict"]
        assert ("hardware" in row["families"], "out_of_service" in row["families"]) == (twin["ill"], twin["left"])


@settings(max_examples=25, deadline=None)
@given(random_clusters(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(cluster: dict[str, Any], chance: Random) -> None:
    _, scores = of_random(cluster)
    shuffled = {
        name: table.sample(fraction=1.0, shuffle=True, seed=chance.randrange(1000))
        for name, table in cluster.items()
        if isinstance(table, pl.DataFrame)
    }
    assert of_random(cluster | shuffled)[1].equals(scores)


COUNTS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.0, 1.0, 2.5, 28.0])), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.integers(1, 4))
def test_node_is_flagged_from_the_first_count_beyond_chance(result: list[tuple[int, float]], least: int) -> None:
    counts, exposure = (np.array(each, dtype=float) for each in zip(*result, strict=True))
    reported = (~np.isnan(p_above_rest(counts, exposure))).sum()
    for node, needed in enumerate(flag_from(counts, exposure, least)):
        if np.isnan(needed):
            assert np.isnan(p_above_rest(counts, exposure)[node])
            continue
        few, enough = counts.copy(), counts.copy()
        few[node], enough[node] = needed - 1, needed
        assert needed >= least
        assert p_above_rest(enough, exposure)[node] <= 0.05 / reported
        assert needed == least or p_above_rest(few, exposure)[node] > 0.05 / reported


# --- the ranking rate ------------------------------------------------------------------------------------------------


@given(COUNTS)
def test_ranking_rate_is_between_the_nodes_and_the_clusters(result: list[tuple[int, float]]) -> None:
    exposure = np.array([each[1] for each in result])
    counts = np.where(exposure > 0, np.array([float(each[0]) for each in result]), 0.0)
    rates = shrunken(counts, counts, exposure)
    if not exposure.sum():
        assert np.isnan(rates).all()
        return
    mean = counts.sum() / exposure.sum()
    for rate, count, own in zip(rates, counts, exposure, strict=True):
        ends = sorted([mean, count / own if own else mean])
        assert ends[0] - 1e-9 <= rate <= ends[1] + 1e-9


def test_nodes_that_vary_by_chance_have_the_clusters_rate() -> None:
    counts = np.array([1.0, 0.0, 1.0, 0.0])
    assert shrunken(counts, counts, np.full(4, 10.0)).tolist() == [0.05] * 4


# --- what counts -----------------------------------------------------------------------------------------------------


def test_a_lemon_needs_a_second_family_of_signals() -> None:
    alone = by_node(scored(exposed(ALL_WELL), interrupted(*THRICE)))["n0000"]
    assert (alone["verdict"], alone["families"]) == ("suspect", ["jobs"])
    assert "no second family" in alone["note"]
    ill = by_node(scored(exposed(ALL_WELL), interrupted(*THRICE), signals([("n0000", "xid", "79")])))["n0000"]
    assert (ill["verdict"], ill["families"], ill["hardware_kinds"]) == ("lemon", ["jobs", "hardware"], 1)
    left = by_node(scored(exposed(ALL_WELL), interrupted(*THRICE), signals(states=[out("n0000", 50)])))["n0000"]
    assert (left["verdict"], left["families"], left["out_count"]) == ("lemon", ["jobs", "out_of_service"], 1)


def test_signals_that_all_nodes_show_agree_with_nothing() -> None:
    everywhere = signals([(node, "xid", "94") for node in ALL_WELL], [out(node, 50) for node in ALL_WELL])
    assert by_node(scored(exposed(ALL_WELL), interrupted(*THRICE), everywhere))["n0000"]["verdict"] == "suspect"


def test_signals_without_failures_of_jobs_flag_nothing() -> None:
    reported = signals(
        [("n0000", "xid", "79"), ("n0000", "xid", "48")], [out("n0000", 50 * time) for time in range(1, 9)]
    )
    row = by_node(scored(exposed(ALL_WELL), interrupted(), reported))["n0000"]
    assert (row["verdict"], row["families"], row["out_count"]) == ("none", ["hardware", "out_of_service"], 8)


def test_two_failures_make_no_lemon_however_unlikely_they_are() -> None:
    few = by_node(scored(exposed(ALL_WELL), interrupted(*THRICE[:2]), signals(states=[out("n0000", 50)])))["n0000"]
    assert few["q_value"] < 0.05
    assert few["verdict"] == "none"


def test_a_node_that_takes_eight_small_jobs_with_it_fails_once() -> None:
    at_once = [failed("n0000", 50 + job / 100, incident="once") for job in range(8)]
    row = by_node(scored(exposed(ALL_WELL), interrupted(*at_once)))["n0000"]
    assert (row["failures"], row["single_node_failures"], row["multi_node_failures"]) == (1, 1, 0)


def test_failures_of_multi_node_jobs_are_attributed_to_nodes() -> None:
    result = [*THRICE[:2], failed("n0000", 300, n_nodes=16)]
    row = by_node(scored(exposed(ALL_WELL), interrupted(*result)))["n0000"]
    assert (row["failures"], row["single_node_failures"], row["multi_node_failures"]) == (3, 2, 1)


def test_a_failure_that_names_no_node_moves_ranks_and_no_test() -> None:
    result = [*THRICE, failed(None, 100, n_nodes=4)]
    held = pl.DataFrame(
        [{"cluster": "c", "run_id": "r", "attempt_no": 1, "ended_at": at(5), "node": node_name(i)} for i in range(4)],
        HELD,
    )
    plain, charged = (
        scored(exposed(ALL_WELL), interrupted(*THRICE)),
        scored(exposed(ALL_WELL), interrupted(*result), unblamed=held),
    )
    same = ["node", "failures", "expected", "p_value", "q_value", "verdict", "detectable_factor"]
    assert charged.sort("node").select(same).equals(plain.sort("node").select(same))
    assert by_node(charged)["n0001"]["charged"] == 0.25
    assert by_node(charged)["n0001"]["rate_eb"] > by_node(charged)["n0039"]["rate_eb"]
    assert "0.25 of failures that name no node" in by_node(charged)["n0001"]["note"]


def test_failures_outside_of_the_window_or_of_users_do_not_count() -> None:
    result = [failed("n0000", -5), failed("n0000", 24 * DAYS + 1), failed("n0000", 60, **{"class": "user"})]
    assert by_node(scored(exposed(ALL_WELL), interrupted(*result)))["n0000"]["failures"] == 0


def test_what_was_planned_or_done_on_our_advice_is_no_signal() -> None:
    reported = signals(
        states=[
            out("n0000", 10, planned=True),
            out("n0001", 10, state="drained", reason="trackside: 7 failures, 0.2 expected by chance"),
            out("n0002", 10, state="maintenance"),
            out("n0003", -10, lasting=None),
        ]
    )
    scores = by_node(scored(exposed(ALL_WELL), interrupted(), reported))
    assert [scores[node_name(number)]["out_count"] for number in range(4)] == [0, 0, 0, 0]


def test_drained_node_that_goes_down_left_service_once() -> None:
    reported = signals(
        states=[
            out("n0000", 10, 1.0, state="drained"),
            out("n0000", 11.2),
            out("n0000", 40, lasting=None),
            out("n0001", 10),
        ]
    )
    scores = by_node(scored(exposed(ALL_WELL), interrupted(), reported))
    assert (scores["n0000"]["out_count"], scores["n0001"]["out_count"]) == (2, 1)


def test_nodes_that_nothing_ran_on_are_listed_and_not_judged() -> None:
    row = by_node(scored(exposed(ALL_WELL | {"n0000": 0.0}), interrupted()))["n0000"]
    assert (row["p_value"], row["q_value"], row["detectable_factor"], row["verdict"]) == (None, None, None, "none")
    assert "no attempt ran on it" in row["note"]


def test_one_node_alone_cannot_be_compared() -> None:
    row = scored(exposed({"n0000": 28.0}), interrupted(*THRICE)).row(0, named=True)
    assert (row["expected"], row["p_value"], row["flag_at"], row["verdict"]) == (None, None, None, "none")


def test_zero_failures_give_a_flagging_count_and_no_factor() -> None:
    row = scored(exposed(ALL_WELL), interrupted()).row(0, named=True)
    assert (row["flag_at"], row["detectable_factor"], row["expected"]) == (3, None, 0.0)
    assert row["detectable_per_gpu_day"] == pytest.approx(4.279 / (28 * 8), rel=1e-3)


def test_exclusions_by_users_are_shown_and_prove_nothing() -> None:
    excluded = pl.DataFrame([{"cluster": "c", "node": "n0000", "excluded_by": 9}], schema=EXCLUSIONS)
    row = by_node(scored(exposed(ALL_WELL), interrupted(*THRICE), signals(excluded=excluded)))["n0000"]
    assert (row["excluded_by"], row["verdict"]) == (9, "suspect")
