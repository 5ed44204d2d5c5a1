"""Claims on a part of a cluster, or without some time: scopes add up, what is left out is in neither part."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from app.claims import verify as verifying
from app.claims.measure import METHODS, measure
from app.claims.scope import Scoped
from app.results.windows import ledger_sums
from app.window import Window
from metrics.catalog import CLAIMABLE
from metrics.claims.verdict import Claim, Exclusion, Scope
from queries.warehouse import open_reader
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queries.warehouse import Reader


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    root: Path = from_accounting(tmp_path_factory.mktemp("scoping"))
    with open_reader(root) as opened:
        yield opened


@pytest.fixture(scope="module")
def window(reader: Reader) -> Window:
    cluster = reader.query("clusters")["cluster"][0]
    row = reader.query("computed", cluster=cluster).row(0, named=True)
    return Window(cluster, row["since"], row["until"])


def claim(metric: str, scope: Scope | None = None, *exclusions: Exclusion, gpus: float | None = None) -> Claim:
    return Claim("x", metric, "q", "r", "delivered", 0.5, "at_least", "ratio", gpus, scope=scope or Scope(),
                 exclusions=exclusions)  # fmt: skip


METRICS = ("goodput_allocated", "goodput_capacity", "occupancy", "availability", "ettr", "ettr_without_initial_queue")


@pytest.mark.parametrize("metric", METRICS)
def test_a_scope_that_holds_everything_changes_nothing(reader: Reader, window: Window, metric: str) -> None:
    scope = Scope(nodes="*") if metric in METRICS[:4] else Scope(gpus_min=0.001)
    whole, scoped = (measure(reader, window, claim(metric, each)) for each in (None, scope))
    assert (scoped.value, scoped.n) == (whole.value, whole.n)
    assert [scoped.low, scoped.high, scoped.denominator] == pytest.approx([whole.low, whole.high, whole.denominator])
    assert whole.denominator


def test_an_mttf_of_everybody_is_that_of_the_cluster(reader: Reader, window: Window) -> None:
    whole, scoped = (
        measure(reader, window, replace(claim("mttf", each, gpus=8.0), kind="capability"))
        for each in (None, Scope(gpus_min=0.001))
    )
    assert scoped.n == whole.n
    assert scoped.low == pytest.approx(whole.low)
    assert scoped.numerator == pytest.approx(whole.numerator)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["occupancy", "goodput_allocated"])
def test_nodes_add_up_to_the_cluster(reader: Reader, window: Window, metric: str) -> None:
    nodes = reader.query("scope_nodes", cluster=window.cluster)["node"].to_list()
    parts = [measure(reader, window, claim(metric, Scope(nodes=node))) for node in nodes]
    whole = measure(reader, window, claim(metric))
    assert len(nodes) > 1
    assert sum(each.denominator or 0 for each in parts) == pytest.approx(whole.denominator)
    assert sum(each.numerator or 0 for each in parts) == pytest.approx(whole.numerator)


def test_users_add_up_to_what_was_allocated(reader: Reader, window: Window) -> None:
    users = reader.query("attempts", cluster=window.cluster)["user"].drop_nulls().unique()
    parts = [measure(reader, window, claim("goodput_allocated", Scope(user=user))) for user in users]
    whole = measure(reader, window, claim("goodput_allocated"))
    assert len(users) > 1
    assert sum(each.denominator or 0 for each in parts) == pytest.approx(whole.denominator)


@pytest.mark.slow
@pytest.mark.parametrize("metric", [*METRICS, "mttf"])
def test_leaving_out_a_part_is_measuring_the_rest(reader: Reader, window: Window, metric: str) -> None:
    """An exclusion at the window's end is the same as a window that ends there."""
    cut = window.until - (window.until - window.since) / 3
    gpus = 8.0 if metric == "mttf" else None
    left_out = measure(reader, window, claim(metric, None, Exclusion("agreed", cut, window.until), gpus=gpus))
    shorter = measure(reader, Window(window.cluster, window.since, cut), claim(metric, gpus=gpus))
    assert left_out.denominator == pytest.approx(shorter.denominator)
    assert left_out.numerator == pytest.approx(shorter.numerator)
    assert left_out.excluded_s == (window.until - cut).total_seconds()


def test_overlapping_exclusions_leave_out_once(reader: Reader, window: Window) -> None:
    day = timedelta(days=1)
    one = Exclusion("a", window.since, window.since + 2 * day)
    other = Exclusion("b", window.since + day, window.since + 3 * day)
    both = measure(reader, window, claim("occupancy", None, one, other))
    together = measure(reader, window, claim("occupancy", None, Exclusion("c", one.since, other.until)))
    assert both == together
    assert both.excluded_s == 3 * 86_400
    whole = measure(reader, window, claim("occupancy"))
    assert both.excluded_gpu_s == pytest.approx((whole.denominator or 0) - (both.denominator or 0))


def test_an_exclusion_on_some_nodes_leaves_the_others_in(reader: Reader, window: Window) -> None:
    node = reader.query("scope_nodes", cluster=window.cluster)["node"][0]
    left_out = measure(reader, window, claim("occupancy", None, Exclusion("a", window.since, window.until, node)))
    alone = measure(reader, window, claim("occupancy", Scope(nodes=node)))
    whole = measure(reader, window, claim("occupancy"))
    assert (left_out.denominator or 0) + (alone.denominator or 0) == pytest.approx(whole.denominator)


def test_a_category_is_left_out_of_both_parts(reader: Reader, window: Window) -> None:
    whole, kept = (
        measure(reader, window, claim("goodput_allocated", None, *each))
        for each in ((), (Exclusion("agreed", category="unattributed"),))
    )
    sums = ledger_sums(reader, window, "cluster").to_dicts()
    unknown = sum(float(row["gpu_seconds"]) for row in sums if row["category"] == "unattributed")
    assert kept.excluded_gpu_s == pytest.approx(unknown)
    assert (kept.denominator or 0) == pytest.approx((whole.denominator or 0) - unknown)


def test_missing_data_is_reported_and_gives_no_verdict(reader: Reader, window: Window) -> None:
    (judged,) = verifying.verify(reader, window, [claim("occupancy", Scope(nodes="nowhere[1-2]"))])
    assert judged.verdict == "undetermined"
    assert (judged.measured.needed or "").startswith("a node in scope: no node of ")


def test_a_claim_is_judged_by_its_own_window(reader: Reader, window: Window) -> None:
    requested = [replace(claim("occupancy"), window="2d"), replace(claim("occupancy"), window="2031-01")]
    rolling, unknown = verifying.verify(reader, window, requested)
    assert (rolling.since, rolling.until) == (window.until - timedelta(days=2), window.until)
    assert unknown.verdict == "undetermined"
    assert "there are no data between 2031-01-01" in (unknown.measured.needed or "")
    rows = verifying.as_rows([rolling], window)
    assert rows["window_from"].to_list() == [rolling.since]


def test_pieces_cover_the_window_without_gaps(reader: Reader, window: Window) -> None:
    day = timedelta(days=1)
    cuts = [Exclusion("a", window.since - day, window.since + day), Exclusion("b", window.until, window.until + day)]
    pieces = Scoped(reader, window, claim("occupancy", None, *cuts)).intervals
    assert [(each.since, each.until) for each in pieces] == [
        (window.since, window.since + day), (window.since + day, window.until),
    ]  # fmt: skip
    assert [each.without for each in pieces] == [None, frozenset()]


def test_methods_measure_every_claimable_metric_and_no_other() -> None:
    assert {claimable.method for claimable in CLAIMABLE.values()} == set(METHODS)
