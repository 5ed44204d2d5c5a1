"""Metrics that the configuration names, and labels that decide nothing: from a file to the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queries.warehouse import open_reader
from tests.app.compute.test_gpu_activity import MIDNIGHT, computed, readings
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
warehouse = "w"

[[prometheus.metric]]
name = "beegfs_read_kilobytes"
fills = "node_samples.fs_read_bytes_per_s"
counter = true
scale = 1024
device = ["target"]
device_pattern = "^(.*)-[0-9]+$"
where_not = { role = "server" }

[[prometheus.metric]]
name = "my_power_milliwatts"
fills = "gpu_samples.power_w"
scale = 0.001
"""


def configured(folder: Path) -> dict[str, str]:
    return {"TRACKSIDE_CONFIG": str(folder / "trackside.toml")}


def loaded(folder: Path, config: str, *lines: str) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """What node and GPU samples there are (without their times) of lines of a file."""
    (folder / "trackside.toml").write_text(config)
    (folder / "x.om").write_text("\n".join([*lines, "# EOF\n"]))
    done = trackside("ingest", "prometheus", str(folder / "x.om"), "--cluster", "c", env=configured(folder))
    assert done.returncode == 0, done.stderr
    with open_reader(folder / "w") as reader:
        nodes = reader.table("node_samples").select("node", "metric", "device", "value").unique().rows()
        return nodes, reader.table("gpu_samples").select("node", "gpu", "power_w").unique().rows()


def test_configured_metric_is_read_like_a_built_in_one(tmp_path: Path) -> None:
    lines = [
        line
        for second in range(MIDNIGHT, MIDNIGHT + 601, 60)
        for line in (
            f'beegfs_read_kilobytes{{instance="n1:1",target="scratch-7",role="client"}} {second - MIDNIGHT} {second}',
            f'beegfs_read_kilobytes{{instance="n1:1",target="scratch-7",role="server"}} {9 * second} {second}',
            f'my_power_milliwatts{{instance="n1:1",gpu="0"}} 700000 {second}',
        )
    ]
    nodes, gpus = loaded(tmp_path, CONFIG, *lines)
    assert nodes == [("n1", "fs_read_bytes_per_s", "scratch", 1024.0)]
    assert gpus == [("n1", "0", 700.0)]


def test_all_wrong_entries_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "trackside.toml").write_text(
        CONFIG + '\n[[prometheus.metric]]\nname = "a.b"\nfills = "node_samples.x"\n'
        '[[prometheus.metric]]\nname = "a"\nfills = "gpu_samples.fan"\n'
    )
    done = trackside("status", env=configured(tmp_path))
    assert done.returncode == 10
    assert "has 2 mistakes" in done.stderr
    assert "prometheus.metric.2: this entry (a.b): name is 'a.b'; write a metric's name" in done.stderr
    assert "prometheus.metric.3: this entry (a): gpu_samples has no column fan; it has gpu_util" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "row"),
    [
        (  # one exporter tells the index and the UUID, another the UUID alone, and writes it otherwise
            [
                'DCGM_FI_DEV_POWER_USAGE{gpu="3",UUID="GPU-6A",Hostname="n1"} 700',
                'nvidia_smi_power_draw_watts{uuid="6a",instance="n1:9835"} 650',
            ],
            ("n1", "3", 700.0),
        ),
        (  # a pod's name that is no node's
            ['DCGM_FI_DEV_POWER_USAGE{gpu="3",Hostname="dcgm-exporter-x7",pod="dcgm-exporter-x7",node="n1"} 700'],
            ("n1", "3", 700.0),
        ),
        (  # the busier of two generations of names
            [
                'DCGM_FI_DEV_POWER_USAGE{gpu="3",Hostname="n1"} 700',
                'DCGM_FI_DEV_BOARD_POWER_WATTS{gpu="3",hostname="n1"} 702',
            ],
            ("n1", "3", 702.0),
        ),
    ],
)
def test_a_gpu_of_several_exporters_is_one(tmp_path: Path, lines: list[str], row: tuple[str, str, float]) -> None:
    times = range(MIDNIGHT, MIDNIGHT + 181, 60)
    _, gpus = loaded(tmp_path, 'warehouse = "w"', *(f"{line} {second}" for second in times for line in lines))
    assert gpus == [row]


@pytest.mark.slow
def test_a_label_that_still_names_an_ended_job_gives_it_nothing(tmp_path: Path) -> None:
    """After a node failure the exporter's file of jobs stays, its series go on under the old. Accounting decides."""
    before = tmp_path / "before"
    before.mkdir()
    stale = readings().replace('{gpu="0",', '{gpu="0",hpc_job="99",')
    assert stale.count('="99"') > 100
    twice = "\n".join(  # and a second series for the job that is there now
        line if "99" not in line else f"{line}\n{line.replace('99', '1')}" for line in stale.splitlines()
    )
    (tmp_path / "stale").mkdir()
    right, result = computed(before, readings()), computed(tmp_path / "stale", twice + "\n")
    drop = {"computed_at"}
    assert {job: {key: row[key] for key in row.keys() - drop} for job, row in result.items()} == {
        job: {key: row[key] for key in row.keys() - drop} for job, row in right.items()
    }
    assert "99" not in result
