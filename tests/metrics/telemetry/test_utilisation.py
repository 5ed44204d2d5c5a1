"""Utilisation and traffic by subject: ratios of sums, and what is not known is null."""

from __future__ import annotations

import polars as pl
import pytest

from metrics.telemetry.traffic import FILESYSTEMS, traffic
from metrics.telemetry.utilisation import utilisation


def allocated(*rows: tuple[str, float]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"subject": pl.String, "allocated_s": pl.Float64}, orient="row")


def seen(subject: str, seconds: float, util: float | None, idle: float | None) -> dict[str, object]:
    known = 0.0 if util is None else seconds
    return {"subject": subject, "observed_s": seconds, "judged_s": known, "idle_s": idle, "gpu_util_s": known,
            "gpu_util_sum": None if util is None else util * seconds, "unattributed_s": 0.0}  # fmt: skip


def test_a_long_attempt_counts_for_more_than_a_short_one() -> None:
    activity = pl.DataFrame([seen("al", 900, 1.0, 0.0), seen("al", 100, 0.0, 100.0)])
    (row,) = utilisation(activity, allocated(("al", 1500), ("al", 500)), ["subject"]).to_dicts()
    assert (row["gpu_util"], row["idle_share"], row["coverage"]) == (0.9, 0.1, 0.5)
    assert (row["gpu_util_sum"], row["gpu_util_s"]) == (900, 1000)


def test_unobserved_subject_is_null_with_its_allocated_time() -> None:
    activity = pl.DataFrame([seen("al", 100, None, None)], schema_overrides={"gpu_util_sum": pl.Float64})
    result = utilisation(activity, allocated(("bo", 50), ("al", 100)), ["subject"])
    al, bo = result.sort("subject").to_dicts()
    assert (al["coverage"], al["gpu_util"], al["idle_share"], al["tensor_active"], al["power_w"]) == (1, *[None] * 4)
    assert (bo["coverage"], bo["observed_s"], bo["idle_s"], bo["gpu_util"]) == (0, 0, None, None)


def test_what_was_never_allocated_has_no_coverage() -> None:
    result = utilisation(pl.DataFrame([seen("al", 100, 0.5, 0.0)]), allocated(), ["subject"])
    assert result.select("coverage", "gpu_util").rows() == [(None, 0.5)]


def test_most_idle_come_first_and_unknown_last() -> None:
    activity = pl.DataFrame([seen("a", 100, 0.5, 10.0), seen("b", 100, 0.5, 20.0), seen("c", 100, 0.5, 0.0)])
    result = utilisation(activity, allocated(("d", 999)), ["subject"])
    assert result["subject"].to_list() == ["b", "a", "c", "d"]


def rate(metric: str, device: str, value: float | None, **more: float) -> dict[str, object]:
    return {"metric": metric, "device": device, "n_nodes": 2, "observed_s": 10.0, "value_s": value, "shared_s": 0.0,
            "shared_value_s": None} | more  # fmt: skip


def test_response_time_is_by_the_operations_of_the_same_time() -> None:
    sums = pl.DataFrame([
        rate("fs_operations_per_s", "/data", 1000.0),
        rate("fs_response_s_per_s", "/data", 1.0, observed_s=5.0),  # told of half of the time only
        rate("fs_read_bytes_per_s", "/data", 5e6),
        rate("cpu_busy", "", 5.0),
    ])  # fmt: skip
    (row,) = traffic(sums, FILESYSTEMS, []).to_dicts()
    assert (row["device"], row["operations"], row["operations_per_s"], row["n_nodes"]) == ("/data", 1000, 100, 2)
    assert row["mean_response_s"] == pytest.approx(0.002)
    assert (row["read_bytes"], row["written_bytes"], row["mean_queue_s"]) == (5e6, None, None)


def test_mount_totals_are_shown_with_the_mounts() -> None:
    sums = pl.DataFrame([rate("fs_operations_per_s", "/data", 10.0), rate("nfs_operations_per_s", "", 30.0)])
    result = traffic(sums, FILESYSTEMS, [])
    assert result.select("device", "operations").rows() == [("(NFS, all mounts)", 30), ("/data", 10)]


def test_covered_time_without_operations_is_that_of_the_bytes() -> None:
    """Lustre's exporter has bytes, reads and writes, and no operations as a whole."""
    read = rate("fs_read_bytes_per_s", "scratch", 3e7, shared_s=4.0)
    written = rate("fs_written_bytes_per_s", "scratch", 2e7, observed_s=8.0)
    (row,) = traffic(pl.DataFrame([read, written]), FILESYSTEMS, []).to_dicts()
    assert (row["observed_s"], row["shared_s"], row["operations"]) == (10.0, 4.0, None)
    assert (row["read_bytes_per_s"], row["written_bytes_per_s"]) == (3e6, 2.5e6)


def test_no_operations_have_no_response_time() -> None:
    sums = pl.DataFrame([rate("fs_operations_per_s", "/data", 0.0), rate("fs_response_s_per_s", "/data", 0.0)])
    (row,) = traffic(sums, FILESYSTEMS, []).to_dicts()
    assert (row["operations"], row["mean_response_s"]) == (0, None)


def test_without_input_nothing_results() -> None:
    sums = pl.DataFrame([rate("cpu_busy", "", 5.0)]).clear()
    assert traffic(sums, FILESYSTEMS, []).is_empty()
    assert utilisation(pl.DataFrame(schema={"subject": pl.String}), allocated(), ["subject"]).is_empty()
