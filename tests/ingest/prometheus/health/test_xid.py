"""XIDs: what each means, and when one happened."""

from __future__ import annotations

import polars as pl
import pytest

from ingest.prometheus.health import xid
from ingest.prometheus.series.labels import READINGS
from tests.support.slurm.parsing import at

PRESENT = {"node": pl.String(), "gpu": pl.String(), "present_from": pl.Datetime("us", "UTC")}
GAUGE, COUNT, TOTAL = "DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_XID_ERRORS_TOTAL"


def readings(name: str, *values: tuple[int, float], gpu: str = "0", code: str = "", series: str = "") -> pl.DataFrame:
    rows = [(name, "n1", gpu, "", code, at(second), value, series) for second, value in values]
    return pl.DataFrame(rows, schema=READINGS, orient="row")


def events(*gauge: tuple[int, float]) -> pl.DataFrame:
    seen = xid.XidReadings(readings(GAUGE, *gauge), readings(COUNT), pl.DataFrame(schema=PRESENT))
    return xid.events(seen, cluster="c")


def of_series(**told_by: list[tuple[int, float]]) -> pl.DataFrame:
    """Events of one GPU of which several series tell."""
    gauge = pl.concat([readings(GAUGE, *values, series=series) for series, values in told_by.items()])
    return xid.events(xid.XidReadings(gauge, readings(COUNT), pl.DataFrame(schema=PRESENT)), cluster="c")


def every(step: int, begin: int, end: int, value: float) -> list[tuple[int, float]]:
    return [(second, value) for second in range(begin, end, step)]


def counted(frame: pl.DataFrame, *, since: int) -> pl.DataFrame:
    present = pl.DataFrame([("n1", "0", at(since))], schema=PRESENT, orient="row")
    return xid.events(xid.XidReadings(readings(GAUGE), frame, present), cluster="c")


def brief(result: pl.DataFrame) -> list[tuple[float, str, str, bool]]:
    """Second, code, severity, and whether it was only found there."""
    return [
        (row["ts"].timestamp(), row["code"], row["severity"], row["detail"].startswith(xid.FIRST_SEEN))
        for row in result.iter_rows(named=True)
    ]


@pytest.mark.parametrize(
    ("code", "kind", "severity"),
    [
        (79, "HW", "critical"),
        (48, "HW", "critical"),
        (74, "HW", "critical"),
        (94, "HW", "critical"),
        (95, "HW", "critical"),
        (119, "DRIVER", "critical"),
        (92, "WARN", "warning"),
        (109, "UNKNOWN", "warning"),
        (145, "UNKNOWN", "warning"),
        (171, "HW", "warning"),
        (13, "APP", "info"),
        (31, "APP", "info"),
        (43, "APP", "info"),
        (45, "CONSEQUENCE", "info"),
        (63, "INFO", "info"),
        (137, "APP", "info"),
        (777, "UNKNOWN", "warning"),
    ],
)
def test_code_has_its_kind_and_severity(code: int, kind: str, severity: str) -> None:
    assert (xid.xid(code).kind, xid.xid(code).severity) == (kind, severity)


def test_each_code_is_in_the_table_once() -> None:
    codes = [one.code for one in xid.XIDS]
    assert len(codes) == len(set(codes)) > 40


def test_what_is_not_the_machines_fault_is_never_critical() -> None:
    assert {one.severity for one in xid.XIDS if one.kind in {"APP", "INFO", "CONSEQUENCE"}} == {"info"}


def test_a_sticky_value_is_one_event_however_long_it_stays() -> None:
    assert brief(events((0, 0), (15, 0), (30, 79), (45, 79), (60, 79))) == [(30, "79", "critical", False)]


def test_another_code_is_an_event_and_a_return_to_zero_is_not() -> None:
    assert brief(events((0, 0), (15, 79), (30, 45), (45, 0), (60, 79))) == [
        (15, "79", "critical", False),
        (30, "45", "info", False),
        (60, "79", "critical", False),
    ]


def test_code_present_at_first_has_no_time_and_explains_nothing() -> None:
    (only,) = brief(events((0, 79), (15, 79)))
    assert only == (0, "79", "info", True)


def test_blank_values_are_no_codes() -> None:
    assert brief(events((0, 0), (15, 2147483632), (30, float("nan")), (45, 0))) == []


def test_equal_series_are_one_event() -> None:
    same: list[tuple[int, float]] = [(0, 0), (15, 79)]
    assert brief(of_series(a=same, b=same, begun=[(15, 79)])) == [(15, "79", "critical", False)]


def test_exporters_that_disagree_about_a_gpu_invent_no_event() -> None:
    """The second one started later, and knows nothing of what was before; they are scraped 8 s apart."""
    result = of_series(one=[(0, 0), *every(15, 15, 600, 79)], late=every(15, 98, 600, 0))
    assert brief(result) == [(15, "79", "critical", False)]


def test_event_of_two_exporters_is_one_and_a_repeat_another() -> None:
    one = [*every(15, 0, 60, 0), *every(15, 60, 300, 79), *every(15, 300, 600, 0), *every(15, 600, 900, 79)]
    other = [(second + 8, value) for second, value in one]
    assert brief(of_series(one=one, other=other)) == [(60, "79", "critical", False), (600, "79", "critical", False)]
    assert brief(of_series(one=other, other=one)) == brief(of_series(one=one, other=other))


def test_code_shown_again_by_an_exporter_is_a_new_event() -> None:
    short: list[tuple[int, float]] = [(0, 0), (15, 31), (30, 0), (45, 31)]
    echo: list[tuple[int, float]] = [(8, 0), (23, 31), (38, 0), (53, 31)]
    assert [second for second, *_ in brief(of_series(one=short, other=echo))] == [15, 45]


def test_mig_instances_do_not_hide_each_others_codes() -> None:
    result = of_series(one=[(0, 0), *every(15, 15, 120, 79)], two=[(0, 0), (15, 0), (30, 0), *every(15, 45, 120, 31)])
    assert brief(result) == [(15, "79", "critical", False), (45, "31", "info", False)]


def test_code_that_ends_a_job_appears_in_the_next_series() -> None:
    """The exporter labels series by job, so that which saw zeros has ended with the job."""
    assert brief(of_series(job=every(15, 0, 60, 0), none=every(15, 60, 120, 79))) == [(60, "79", "critical", False)]


def test_jobs_that_begin_and_end_under_an_old_code_are_no_events() -> None:
    between = [*every(15, 0, 60, 0), *every(15, 900, 1200, 63)]
    first = [*every(15, 60, 120, 0), *every(15, 120, 900, 63)]
    result = of_series(between=between, first=first, second=every(15, 1200, 1800, 63))
    assert brief(result) == [(120, "63", "info", False)]


def test_a_code_that_a_gap_hides_is_an_event_when_it_ends() -> None:
    assert brief(of_series(only=[*every(15, 0, 60, 0), *every(15, 1200, 1260, 79)])) == [
        (1200, "79", "critical", False)
    ]


def test_counters_that_disagree_invent_no_event() -> None:
    one = readings(TOTAL, (0, 0), *every(15, 15, 600, 2), code="48", series="one")
    late = readings(TOTAL, *every(15, 98, 600, 0), code="48", series="late")
    assert [second for second, *_ in brief(counted(pl.concat([one, late]), since=0))] == [15]


def test_a_counter_that_restarts_after_a_gap_counts_from_zero() -> None:
    frame = readings(TOTAL, (0, 0), (15, 5), *every(15, 1200, 1260, 1), code="48")
    assert [second for second, *_ in brief(counted(frame, since=0))] == [15, 1200]


def test_earlier_event_is_not_repeated_by_a_later_series() -> None:
    one, other = readings(GAUGE, *every(15, 1, 90, 79), series="one"), readings(GAUGE, (4, 0), (19, 79), series="other")
    seen = xid.XidReadings(pl.concat([one, other]), readings(COUNT), pl.DataFrame(schema=PRESENT))
    assert brief(xid.events(seen, cluster="c", reported_before=at(120))) == [(1, "79", "info", True)]


def test_each_gpu_has_its_own_edges() -> None:
    both = pl.concat([readings(GAUGE, (0, 0), (15, 79)), readings(GAUGE, (0, 0), (15, 0), (30, 48), gpu="1")])
    result = xid.events(xid.XidReadings(both, readings(COUNT), pl.DataFrame(schema=PRESENT)), cluster="c")
    assert result.select("gpu", "code").rows() == [("0", "79"), ("1", "48")]


def test_event_has_an_action() -> None:
    row = events((0, 0), (15, 79)).row(0, named=True)
    assert (row["kind"], row["class"], row["source"], row["evidence"]) == ("xid", "HW", "prometheus.gpu", "telemetry")
    assert "fallen off the bus" in row["detail"]
    assert "restart the machine" in row["detail"]
    assert (row["action"], row["device"], row["value"]) == ("restart the machine", None, None)


def test_count_that_begins_while_the_gpu_is_watched_is_an_event() -> None:
    assert brief(counted(readings(TOTAL, (60, 1), (75, 1), code="79"), since=0)) == [(60, "79", "critical", False)]


def test_a_count_present_from_the_start_is_not() -> None:
    assert brief(counted(readings(TOTAL, (60, 2), (75, 2), code="79"), since=60)) == [(60, "79", "info", True)]


@pytest.mark.parametrize(("since", "event"), [(0, (60, "79", "critical", False)), (60, (60, "79", "info", True))])
def test_gauge_that_appears_with_a_code_had_none_while_watched(since: int, event: tuple[int, str, str, bool]) -> None:
    present = pl.DataFrame([("n1", "0", at(since))], schema=PRESENT, orient="row")
    seen = xid.XidReadings(readings(GAUGE, *every(15, 60, 120, 79)), readings(COUNT), present)
    assert brief(xid.events(seen, cluster="c")) == [event]


def test_counter_shows_repeats_and_restarts_from_zero() -> None:
    frame = readings(TOTAL, (0, 0), (15, 1), (30, 2), (45, 1), (60, 0), code="48")
    assert [second for second, *_ in brief(counted(frame, since=0))] == [15, 30, 45]


def test_a_window_that_moves_on_is_no_event() -> None:
    frame = readings(COUNT, (0, 0), (15, 2), (30, 1), (45, 0), code="48")
    assert [second for second, *_ in brief(counted(frame, since=0))] == [15]


def test_loads_in_any_order_give_the_same_events() -> None:
    whole = events((0, 0), (15, 79), (30, 79), (45, 79), (60, 48))
    first, second = events((0, 0), (15, 79), (30, 79)), events((30, 79), (45, 79), (60, 48))
    assert xid.merge(first, second).equals(whole)
    assert xid.merge(second, first).equals(whole)
    assert xid.merge(whole, whole).equals(whole)


def test_an_observed_event_beats_one_found_present() -> None:
    seen, result = events((0, 0), (15, 79)), events((15, 79))
    assert xid.merge(result, seen).equals(seen)
    assert xid.merge(seen, result).equals(seen)
