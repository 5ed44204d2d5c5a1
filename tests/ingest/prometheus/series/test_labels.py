"""What dcgm-exporter calls things."""

from __future__ import annotations

import polars as pl
import pytest

from ingest.prometheus.mapping.mapping import builtin
from ingest.prometheus.series.labels import (
    COLUMNS,
    SAMPLES,
    Indexes,
    gpu_location,
    identity,
    in_base_units,
    in_percent,
    with_indexes,
)
from ingest.tables import GPU_SAMPLES
from tests.support.slurm.parsing import at


@pytest.mark.parametrize(
    ("labels", "node", "gpu"),
    [
        ({"gpu": "3", "Hostname": "n7"}, "n7", "3"),
        ({"gpu": "3", "hostname": "n7.cluster.local"}, "n7", "3"),
        ({"gpu": "3", "Hostname": "", "hostname": "n7", "instance": "10.0.0.7:9400"}, "n7", "3"),
        ({"gpu": "3", "node": "n7", "instance": "exporter-abc:9400"}, "n7", "3"),
        ({"gpu": "3", "instance": "n7.cluster.local:9400"}, "n7", "3"),
        ({"gpu": "3", "instance": "10.0.0.7:9400"}, "10.0.0.7", "3"),
        ({"gpu": "3", "instance": "[fd00::7]:9400"}, "fd00::7", "3"),
        ({"device": "nvidia3", "Hostname": "n7"}, "n7", "3"),
        ({"UUID": "GPU-1f", "Hostname": "n7"}, "n7", "GPU-1f"),
        ({"ordinal": "3", "minor_number": "2", "uuid": "GPU-1f", "instance": "n7:9445"}, "n7", "3"),
        ({"gpu_id": "3", "gpu_uuid": "GPU-1f", "instance": "n7:8000"}, "n7", "3"),
        ({"card": "3", "instance": "n7:8001"}, "n7", "3"),
        # In a pod: the exporter's own pod is no node, whatever says so; that of a job is one where nodes are pods.
        ({"gpu": "3", "Hostname": "n7", "pod": "dcgm-exporter-x7k2q", "instance": "10.4.2.7:9400"}, "n7", "3"),
        ({"gpu": "3", "Hostname": "n7", "pod": "dcgm-exporter-x7k2q", "exported_pod": "train-0"}, "n7", "3"),
        ({"gpu": "3", "Hostname": "dcgm-exporter-x7k2q", "pod": "dcgm-exporter-x7k2q", "node": "n7"}, "n7", "3"),
        (
            {"gpu": "3", "hostname": "dcgm-exporter-x", "pod": "dcgm-exporter-x", "instance": "10.0.0.7:1"},
            "10.0.0.7",
            "3",
        ),
        (
            {"gpu": "3", "Hostname": "worker-3", "exported_pod": "worker-3", "instance": "10.4.2.7:9400"},
            "worker-3",
            "3",
        ),
    ],
)
def test_node_and_gpu_come_from_any_available_label(labels: dict[str, str], node: str, gpu: str) -> None:
    assert gpu_location(labels) == (node, gpu, "")


@pytest.mark.parametrize(
    "labels",
    [
        {"gpu": "3"},
        {"Hostname": "n7"},
        {"gpu": "", "Hostname": "n7"},
        {"gpu": "3", "Hostname": "dcgm-exporter-x7k2q", "pod": "dcgm-exporter-x7k2q"},
    ],
)
def test_a_series_without_node_or_gpu_has_no_place(labels: dict[str, str]) -> None:
    assert gpu_location(labels) is None


def test_every_metric_fills_a_column_and_every_column_is_filled() -> None:
    assert set(COLUMNS) == set(GPU_SAMPLES) - {"cluster", "node", "gpu", "ts", "interval_s"}


def test_gpu_with_a_uuid_only_gets_the_index_of_another_series() -> None:
    both, alone = {"gpu": "3", "UUID": "GPU-1F"}, {"uuid": "1f", "instance": "n7:9835"}
    other = {"uuid": "2e", "instance": "n7:9835"}
    assert with_indexes([alone, both, other]) == [{**alone, "gpu": "3"}, both, other]
    assert with_indexes([alone, other]) == [alone, other]


def test_minor_number_is_the_index_unless_a_series_gives_one() -> None:
    """GPU 2 fell off: what was the fourth is the third now, and still /dev/nvidia3."""
    dcgm, jobstats = {"gpu": "2", "UUID": "GPU-1f"}, {"minor_number": "3", "uuid": "GPU-1f"}
    assert with_indexes([dcgm, jobstats]) == [dcgm, {**jobstats, "gpu": "2"}]
    assert with_indexes([jobstats, {"uuid": "1f"}]) == [{**jobstats, "gpu": "3"}, {"uuid": "1f", "gpu": "3"}]


def test_a_gpu_that_was_numbered_anew_keeps_its_uuid() -> None:
    indexes = Indexes()
    indexes.add({"gpu": "3", "UUID": "GPU-1f"})
    named = pl.DataFrame({"node": ["n1"] * 4, "gpu": ["GPU-1f", "1f", "0", "GPU-2e"], "value": [1, 2, 3, 4]})
    assert indexes.renamed(named)["gpu"].to_list() == ["3", "3", "0", "GPU-2e"]
    indexes.add({"gpu": "2", "UUID": "GPU-1f"})
    assert indexes.renamed(named).equals(named)


def test_a_gpu_that_moved_has_an_index_on_each_node() -> None:
    first, second = ({"gpu": gpu, "UUID": "GPU-1f", "Hostname": node} for gpu, node in (("0", "n1"), ("3", "n2")))
    alone = [{"uuid": "1f", "instance": f"{node}:9835"} for node in ("n1", "n2", "n3")]
    indexes = [labels.get("gpu") for labels in with_indexes([first, second, *alone])]
    assert indexes == ["0", "3", "0", "3", None]


def exported_as(name: str, *values: float) -> pl.DataFrame:
    rows = [(name, "n1", "0", "", "", at(60 * number), value) for number, value in enumerate(values)]
    return pl.DataFrame(rows, schema=SAMPLES, orient="row")


RATIO, PERCENTS = "DCGM_FI_DEV_GPU_UTIL_RATIO", "DCGM_FI_DEV_GPU_UTIL"


@pytest.mark.parametrize(
    ("values", "result"),
    [
        ([1.0, 0.25, 97.0], [RATIO]),  # a GPU at 1 %, one at a quarter of a percent, and one at 97 %
        ([0.0, 1.0, 0.25, 0.97], []),
        ([1.0005] * 3, []),  # rounding
        ([0.5] * 2000 + [1.5], []),  # one reading that cannot be
        ([0.0] * 2000 + [1.5], [RATIO]),  # of what idles nothing can be told
        ([0.5, 5000.0], []),  # no percent either
    ],
)
def test_ratio_counted_in_percent_is_detected_by_all_its_values(values: list[float], result: list[str]) -> None:
    assert in_percent(pl.concat([exported_as(RATIO, *values), exported_as(PERCENTS, 97.0)])) == result


def test_series_identity_is_all_labels_in_any_order() -> None:
    name, labels = "DCGM_FI_DEV_XID_ERRORS", {"gpu": "0", "hpc_job": "7"}
    assert identity(name, labels) == identity(name, {"hpc_job": "7", "gpu": "0", "__name__": name})
    assert identity(name, labels) != identity(name, {"gpu": "0", "hpc_job": "8"})


@pytest.mark.parametrize(
    ("name", "exported", "base", "blank"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", 97.0, 0.97, False),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.97, 0.97, False),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 97.0, None, False),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.25, 0.25, False),
        ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", 0.25, 0.25, False),
        ("DCGM_FI_PROF_SM_ACTIVE", 1.0004, 1.0, False),
        ("DCGM_FI_PROF_SM_ACTIVE", 1.5, None, False),
        ("DCGM_FI_PROF_SM_ACTIVE", -0.1, None, False),
        ("DCGM_FI_DEV_FB_USED", 1024.0, 2.0**30, False),
        ("DCGM_FI_DEV_SM_CLOCK", 1980.0, 1.98e9, False),
        ("DCGM_FI_DEV_POWER_USAGE", 700.5, 700.5, False),
        ("DCGM_FI_DEV_GPU_TEMP", -5.0, -5.0, False),
        ("DCGM_FI_DEV_POWER_USAGE", 140737488355328.0, None, True),  # DCGM_FP64_BLANK
        ("DCGM_FI_DEV_POWER_USAGE", 140737488355330.0, None, True),  # ... not supported
        ("DCGM_FI_DEV_FB_USED", 2147483632.0, None, True),  # DCGM_INT32_BLANK
        ("DCGM_FI_DEV_FB_USED", 9223372036854775792.0, None, True),  # DCGM_INT64_BLANK
        ("DCGM_FI_DEV_GPU_TEMP", float("nan"), None, True),
    ],
)
def test_values_are_in_base_units_and_what_cannot_be_is_missing(
    name: str, exported: float, base: float | None, blank: bool
) -> None:
    sample = pl.DataFrame([(name, "n1", "0", "", "", at(0), exported)], schema=SAMPLES, orient="row")
    row = in_base_units(sample).row(0, named=True)
    assert row["value"] == (None if base is None else pytest.approx(base))
    assert row["blank"] is blank
    assert row["column"] == builtin().of_gpus[name].column


def test_own_mapping_defines_what_a_name_means() -> None:
    idle = {"name": "gpu_idle_percent", "fills": "gpu_samples.gpu_util", "scale": 0.01, "one_minus": True}
    ratio = {"name": "gpu_tensor", "fills": "gpu_samples.tensor_active"}
    mapping = builtin().and_more([idle, ratio], origin="mine")
    exported = pl.concat([exported_as("gpu_idle_percent", 25.0, 101.0), exported_as("gpu_tensor", 0.5, 50.0)])
    result = in_base_units(exported, mapping).select("column", "value").rows()
    assert result == [("gpu_util", 0.75), ("gpu_util", None), ("tensor_active", 0.5), ("tensor_active", None)]
    assert in_percent(exported, mapping) == ["gpu_tensor"]
    assert in_base_units(exported).is_empty()  # nobody else knows them
