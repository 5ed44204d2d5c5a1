"""Anomalies in telemetry: planted ones are named, nothing else is, and the scan agrees with plain Python."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median

import numpy as np
import polars as pl
import pytest

from metrics import frames
from metrics.anomalies.deviations import DEVIATIONS, NODE_HOURS, gpu_deviations, node_deviations, resistant_slope
from metrics.anomalies.peers import held_hours
from metrics.anomalies.scan import ANOMALIES
from tests.metrics.anomalies.fleet import Fault, Fleet
from tests.metrics.anomalies.one_by_one import scan as one_by_one
from tests.metrics.anomalies.scan import Scan

FIRST_DAY = datetime(2024, 10, 4, tzinfo=UTC)
"""Hour 480,000 since 1970."""


def scanned(fleet: Fleet) -> pl.DataFrame:
    """All subjects of a fleet: `ANOMALIES`."""
    scan = Scan()
    for hours in fleet.days_of_hours():
        scan.add(gpu_deviations(hours))
    return scan.result()


@pytest.fixture(scope="module")
def faulty() -> pl.DataFrame:
    """A fleet with a slow clock, heat, little power, and a dip of all jobs."""
    faults = (
        Fault(3, 5, 4, 8, clock=0.9),
        Fault(7, 1, 2, 8, kelvin=15.0),
        Fault(9, 2, 5, 8, power=0.8),
        Fault(11, 0, 4, 8, clock=0.9, hours_of_20=10),
    )
    return scanned(Fleet(faults=faults, dips={5: 0.7, 6: 0.5}))


@pytest.mark.slow
def test_planted_faults_are_named_and_nothing_else(faulty: pl.DataFrame) -> None:
    flagged = faulty.filter("anomalous").select("signal", "level", "node", "device").rows()
    assert {("sm_clock", "gpu", "node-003", "5"), ("temperature", "gpu", "node-007", "1"),
            ("power", "gpu", "node-009", "2"), ("sm_clock", "gpu", "node-011", "0")} <= set(flagged)  # fmt: skip
    assert {(node, device) for _, _, node, device in flagged} == {
        ("node-003", "5"), ("node-007", "1"), ("node-009", "2"), ("node-011", "0")}  # fmt: skip


@pytest.mark.slow
def test_stages_of_a_pipeline_are_no_anomaly() -> None:
    assert not scanned(Fleet(seed=41, nodes=64, days=14, stages=4)).filter("anomalous", signal="activity").height


def test_since_and_effect_are_those_of_the_fault(faulty: pl.DataFrame) -> None:
    row = faulty.row(by_predicate=(pl.col("signal") == "sm_clock") & (pl.col("node") == "node-003")
                     & (pl.col("device") == "5"), named=True)  # fmt: skip
    assert row["since"] == FIRST_DAY + timedelta(days=4)
    assert row["until"] == FIRST_DAY + timedelta(days=8)
    assert (row["hours"], row["against"], row["scale"]) == (96, "past", "ratio")
    assert row["effect"] == pytest.approx(-0.1, abs=0.01)
    assert row["detectable"] == pytest.approx(-0.03, abs=0.005)


def test_power_is_compared_at_equal_work() -> None:
    """Half the work takes less power, and is no anomaly of power; the same power at all work is none of work."""
    rows = [(f"n{n}", str(g), h, 1, 0.3 + 0.02 * g, 1.7e9, 400 * (0.3 + 0.02 * g) ** 0.6, 60.0)
            for n in range(8) for g in range(8) for h in range(24)]  # fmt: skip
    names = ("node", "gpu", "hour", "attempt", "work", "sm_clock_hz", "power_w", "temperature_c")
    deviations = gpu_deviations(pl.DataFrame(rows, schema=names, orient="row"))
    gpus = deviations.filter(pl.col("level") == "gpu").with_columns(pl.col("deviation").abs())
    of = dict(gpus.group_by("signal").agg(pl.col("deviation").max()).rows())
    assert of["activity"] == pytest.approx(math.log(0.37 / 0.30), abs=1e-3)
    assert of["power"] < 0.01


def test_links_are_compared_at_equal_work() -> None:
    """A GPU that exchanges half as much as its peers deviates; idle links, and work that explains it, do not."""
    rows = [(f"n{n}", str(g), h, 1, 0.4, 1.7e9, 600.0, 60.0,
             (5e9 if (n, g) == (3, 2) else 1e10) * (1 + 0.01 * ((g + h) % 3)), 1e4 * (1 + g))
            for n in range(8) for g in range(8) for h in range(24)]  # fmt: skip
    names = ("node", "gpu", "hour", "attempt", "work", "sm_clock_hz", "power_w", "temperature_c", "pcie_bytes_per_s",
             "nvlink_bytes_per_s")  # fmt: skip
    deviations = gpu_deviations(pl.DataFrame(rows, schema=names, orient="row"))
    gpus = deviations.filter(pl.col("level") == "gpu")
    pcie = gpus.filter(signal="pcie_throughput").filter(pl.col("deviation").abs() > 0.1)
    assert set(pcie.select("node", "device").rows()) == {("n3", "2")}
    assert pcie["deviation"].max() == pytest.approx(math.log(0.5), abs=0.03)
    assert set(gpus.filter(signal="nvlink_throughput")["deviation"]) == {0.0}
    scan = Scan()
    scan.add(deviations)
    (row,) = scan.result().filter("anomalous", level="gpu").to_dicts()
    assert (row["signal"], row["node"], row["device"], row["against"]) == ("pcie_throughput", "n3", "2", "peers")


def test_the_scan_agrees_with_plain_python() -> None:
    fleet = Fleet(nodes=6, nodes_per_attempt=3, days=6, gpus=4, faults=(Fault(2, 1, 3, 6, clock=0.93, power=1.2),))
    days = [gpu_deviations(hours) for hours in fleet.days_of_hours()]
    # Some subjects miss hours or whole days, and one comes late.
    days = [day.filter((pl.col("hour") + pl.col("node").str.tail(1).cast(pl.Int64)) % 7 != number % 7)
            for number, day in enumerate(days)]  # fmt: skip
    days[0] = days[0].filter(pl.col("node") != "node-004")
    scan = Scan()
    for day in days:
        scan.add(day)
    expected = one_by_one(days)
    rows = scan._window.tests  # noqa: SLF001 - every test, also those that a result leaves out
    assert rows.height == len(expected)
    for row in rows.iter_rows(named=True):
        subject = (row["signal"], row["level"], row["node"], row["device"])
        test = expected[subject, row["against"], row["sign"]]
        assert row["n"] == test.hours
        assert row["top"] == pytest.approx(test.top, rel=1e-6, abs=1e-9)
        if test.top > 0.01:
            assert (row["top_start"], row["top_until"]) == (test.top_start, test.top_until)
    assert max(test.top for test in expected.values()) > 100


def test_deviations_agree_with_plain_python() -> None:
    hours = next(Fleet(nodes=4, nodes_per_attempt=2, gpus=4).days_of_hours())
    clocks = {(r["node"], r["gpu"], r["hour"]): (r["attempt"], math.log(r["sm_clock_hz"])) for r in hours.to_dicts()}
    for row in gpu_deviations(hours).filter(pl.col("signal") == "sm_clock", pl.col("level") == "gpu").to_dicts():
        attempt, own = clocks[row["node"], row["device"], row["hour"]]
        peers = [log for (_, _, hour), (held_by, log) in clocks.items() if (held_by, hour) == (attempt, row["hour"])]
        assert row["deviation"] == pytest.approx(own - median(peers), abs=1e-12)


def test_a_day_in_two_parts_of_time_goes_on_where_it_stopped() -> None:
    """Days without samples in between change nothing but the past's length."""
    days = [gpu_deviations(hours) for hours in Fleet(nodes=8, nodes_per_attempt=8, days=3).days_of_hours()]
    scan = Scan()
    for day in days:
        scan.add(day)
        scan.add(day.clear())
    whole = Scan()
    for day in days:
        whole.add(day)
    assert scan.result().equals(whole.result())


def test_learning_makes_a_past_without_a_test() -> None:
    days = [gpu_deviations(hours) for hours in Fleet(nodes=8, nodes_per_attempt=8, days=5).days_of_hours()]
    scan = Scan()
    for day in days[:4]:
        scan.sums(day)
    assert scan.result().is_empty()
    scan.add(days[4])
    assert set(scan.result()["tested_hours"]) == {24}


@pytest.mark.slow
def test_the_state_does_not_grow_with_time() -> None:
    scan, heights = Scan(), []
    for hours in Fleet(nodes=8, nodes_per_attempt=8, days=20).days_of_hours():
        scan.add(gpu_deviations(hours))
        heights.append((scan._window.tests.height, len(scan._past)))  # noqa: SLF001 - how much it keeps is what is tested
    assert heights[-1] == heights[14] == (heights[-1][0], 14)


def test_too_few_peers_are_compared_with_nothing() -> None:
    hours = next(Fleet(nodes=4, nodes_per_attempt=4, gpus=8).days_of_hours())
    three = hours.filter(pl.col("gpu").is_in(["0", "1", "2"]), pl.col("node") == "node-000")
    assert gpu_deviations(three).is_empty()
    assert gpu_deviations(hours.with_columns(attempt=None)).is_empty()
    one_node = gpu_deviations(hours.filter(pl.col("node") == "node-000"))
    assert set(one_node["level"]) == {"gpu"}


def test_what_is_unknown_deviates_from_nothing() -> None:
    hours = next(Fleet(nodes=4, nodes_per_attempt=4, gpus=4).days_of_hours()).with_columns(
        work=pl.when(pl.col("node") != "node-001").then("work"),
        power_w=pl.when(pl.col("node") != "node-001").then("power_w").otherwise(0.0),
        temperature_c=pl.lit(float("nan")),
    )
    deviations = gpu_deviations(hours)
    assert "temperature" not in set(deviations["signal"])
    of_one = deviations.filter(pl.col("node") == "node-001", pl.col("level") == "gpu")
    assert set(of_one["signal"]) == {"sm_clock"}


def test_an_empty_scan_has_no_rows() -> None:
    assert Scan().result().schema == ANOMALIES
    scan = Scan()
    scan.add(frames.empty(DEVIATIONS))
    assert scan.result().is_empty()


def test_ports_are_compared_with_the_same_port_of_other_nodes() -> None:
    chance = np.random.default_rng(5)
    scan = Scan()
    for day in range(3):
        rows = [
            (f"n{n}", port, "ib_throughput", 480_000 + 24 * day + hour, 1, rate * float(np.exp(chance.normal(0, 0.05))))
            for n in range(8) for port, usual in (("mlx5_0", 1e10), ("mlx5_1", 2e10)) for hour in range(24)
            for rate in [usual / 2 if n == 3 and port == "mlx5_1" else usual]
        ]  # fmt: skip
        scan.add(node_deviations(pl.DataFrame(rows, schema=list(NODE_HOURS), orient="row")))
    flagged = scan.result().filter("anomalous")
    assert flagged.select("node", "device", "against").rows() == [("n3", "mlx5_1", "peers")]
    assert flagged["effect"].item() == pytest.approx(-0.5, abs=0.05)


@pytest.mark.parametrize("slope", [0.0, 0.7, 25.0])
def test_the_resistant_line_withstands_a_tenth_of_bad_points(slope: float) -> None:
    chance = np.random.default_rng(2)
    x = chance.normal(0, 1, 400)
    y = slope * x + chance.normal(0, 0.05, 400)
    y[x.argsort()[::10]] = 1e9
    assert resistant_slope(x, y) == pytest.approx(slope, rel=0.05, abs=0.03)


def test_node_hours_of_one_attempt_from_beginning_to_end() -> None:
    at = [datetime(2024, 10, 4, hour, minute, tzinfo=UTC) for hour, minute in ((0, 30), (3, 0), (5, 30))]
    rows = [("a", 1, at[0], at[1]), ("a", 2, at[1], at[2]), ("b", 2, at[1], None), ("b", 1, at[0], at[2])]
    frame = pl.DataFrame(rows, schema=["node", "attempt", "started_at", "ended_at"], orient="row").with_columns(
        pl.col("started_at", "ended_at").cast(frames.TIME)
    )
    held = held_hours(frame, 480_000, 480_008).sort("node", "hour")
    hours = {node: [(h - 480_000, a) for n, h, a in held.rows() if n == node] for node in "ab"}
    assert hours["a"] == [(1, 1), (2, 1), (3, 2), (4, 2)]
    assert hours["b"] == [(1, 1), (2, 1), (6, 2), (7, 2)]
    assert all(low < high for low, high in pairwise(h for h, _ in hours["a"]))
