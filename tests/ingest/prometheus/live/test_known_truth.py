"""What happened to two nodes in three hours, told by exporters and by accounting, and what is made of it.

By every transport: remote read, JSON, and the file that the history was made of. A node fails under a job; its exporter
begins anew and names the dead job for the rest of the time; XIDs stick; a counter begins again at 0.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.cli import main as cli
from queries.warehouse import open_reader
from tests.lab.prometheus import PrometheusLab, need_prometheus
from tests.support.slurm.dumps import HEADER, with_rows
from tests.support.telemetry.telemetry_lab import (
    COUNTERS,
    HOURS,
    SCRAPE_S,
    START,
    T,
    counted,
    ingest,
    scraped,
    settings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.xdist_group("prometheus")]

END = HOURS * 3600
JOBS = [
    # job, user, node, GPUs, from, to, how it ended
    (1, "alice", "n1", 2, 0, 3600, "COMPLETED"),
    (2, "bob", "n2", 2, 0, 5400, "NODE_FAIL"),
    (3, "carol", "n2", 2, 6000, END, "COMPLETED"),
    (4, "dave", "n1", 1, 3600, 7200, "COMPLETED"),
    (5, "erin", "n1", 1, 3600, 7200, "FAILED"),
]
BUSY = {
    ("n1", "0"): [(3600, 80), (7200, 60), (END, 0)],
    ("n1", "1"): [(3600, 40), (7200, 60), (END, 0)],
    ("n2", "0"): [(5400, 100), (END, 50)],
    ("n2", "1"): [(5400, 100), (END, 0)],
}
"""Percent of utilisation of a GPU up to a second after T."""

XIDS = {("n1", "1"): (500, END, 31), ("n2", "0"): (5370, 5400, 79)}
"""From when to when the gauge of a GPU shows a code: one sticks to the end, one until the node is started anew."""


def job(reported: tuple[int, str, str, int, int, int, str]) -> str:
    """A row of accounting."""
    number, user, node, gpus, begin, end, state = reported
    tres = f"cpu=8,gres/gpu:h100={gpus},gres/gpu={gpus},node=1"
    cells = {
        "JobIDRaw": number, "JobID": number, "Cluster": "c", "DBIndex": number, "Partition": "main", "QOS": "normal",
        "Account": "llm", "User": user, "UID": 1000 + number, "Submit": T - 60, "Eligible": T - 60, "Start": T + begin,
        "End": T + end, "ElapsedRaw": end - begin, "Suspended": "00:00:00", "State": state, "ExitCode": "0:0",
        "NNodes": 1, "NCPUS": 8, "ReqTRES": f"gres/gpu={gpus},node=1", "AllocTRES": tres, "TimelimitRaw": 1440,
        "NodeList": node, "JobName": "train",
    }  # fmt: skip
    return "|".join(str(cells[column]) for column in HEADER.split("|"))


def util(node: str, gpu: str, second: int) -> int:
    """What was read then: it speaks for the time up to it."""
    return next(percent for until, percent in BUSY[node, gpu] if second <= until)


def code(node: str, gpu: str, second: int) -> int:
    """The code that a GPU shows."""
    begin, end, number = XIDS.get((node, gpu), (0, 0, 0))
    return number if begin <= second < end else 0


def history() -> str:
    """What the exporters said. On n2 the label of the job that died with the node stays for good."""
    lines: list[str] = []
    for node, gpu in BUSY:
        labels = f'gpu="{gpu}",UUID="GPU-{node}-{gpu}",Hostname="{node}",hpc_job="{1 if node == "n1" else 2}"'
        for second in scrapes(node):
            busy = util(node, gpu, second)
            reported = {"DCGM_FI_DEV_GPU_UTIL": busy, "DCGM_FI_DEV_POWER_USAGE": 100 + 5 * busy,
                    "DCGM_FI_DEV_XID_ERRORS": code(node, gpu, second)}  # fmt: skip
            lines += [f"{name}{{{labels}}} {output} {T + second}" for name, output in reported.items()]
    for node in ("n1", "n2"):
        own = f'instance="{node}:9100"}}'
        for second in scrapes(node):
            lines.append(f'node_uname_info{{nodename="{node}",{own} 1 {T + second}')
            lines += [
                f"{name}{own} {counted(node, per_s, second)} {T + second}" for name, (_, per_s) in COUNTERS.items()
            ]
    return "\n".join([*lines, "# EOF"]) + "\n"


def scrapes(node: str) -> list[int]:
    """When a node was scraped."""
    return [second for second in range(0, END + 1, SCRAPE_S) if scraped(second, node)]


@pytest.fixture(scope="module")
def server() -> Iterator[PrometheusLab]:
    need_prometheus()
    with PrometheusLab(history=history()) as lab:
        yield lab


@pytest.fixture(scope="module", params=["remote read", "JSON", "file"])
def warehouse(request: pytest.FixtureRequest, server: PrometheusLab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Accounting and telemetry, computed."""
    folder = tmp_path_factory.mktemp("truth")
    root = folder / "w"
    (folder / "sacct.txt").write_text(with_rows(list(map(job, JOBS))))
    assert cli.main(["ingest", "slurm", "--quiet", "--warehouse", str(root), str(folder / "sacct.txt")]) == 0
    if request.param == "file":
        (folder / "history.om").write_text(history())
        reported = ["ingest", "prometheus", "--quiet", "--cluster", "c", "--warehouse", str(root)]
        assert cli.main([*reported, str(folder / "history.om")]) == 0
    else:
        config = settings(server, remote_read=request.param == "remote read", chunk_hours=1)
        assert [report.error for report in ingest(root, config) if report.error] == []
    assert cli.main(["compute", "--quiet", "--warehouse", str(root)]) == 0
    return root


def by_job(warehouse: Path, table: str, **where: str) -> dict[str, dict[str, Any]]:
    """The rows of a table, by job."""
    with open_reader(warehouse) as reader:
        rows = reader.table(table).filter(**where)
    assert rows["job_id"].n_unique() == rows.height
    return {row["job_id"]: row for row in rows.iter_rows(named=True)}


def test_gpus_belong_to_the_holder_of_the_node_not_to_labels(warehouse: Path) -> None:
    result = by_job(warehouse, "attempt_activity")
    reported = {
        name: (row["observed_s"], row["unattributed_s"], row["gpu_util_sum"], row["idle_s"], row["energy_j"])
        for name, row in result.items()
    }
    assert reported == {
        "1": (7200, 0, pytest.approx(1.2 * 3600), 0, pytest.approx((500 + 300) * 3600)),
        "2": (10_800, 0, pytest.approx(10_800), 0, pytest.approx(2 * 600 * 5400)),
        "3": (9600, 0, pytest.approx(0.5 * 4800), 4800, pytest.approx((350 + 100) * 4800)),
        "4": (0, 3600, None, None, None),
        "5": (0, 3600, None, None, None),
    }


def test_node_counters_belong_to_holders_and_survive_restarts(
    warehouse: Path,
) -> None:
    """A counter that restarts loses only what its last reading had not counted."""
    for metric, per_s in COUNTERS.values():
        result = by_job(warehouse, "attempt_node_activity", metric=metric)
        reported = {
            name: (row["observed_s"], row["value_s"], row["shared_s"], row["shared_value_s"])
            for name, row in result.items()
        }
        shared = (
            0,
            None,
            3600,
            pytest.approx((3600 - 2) * per_s),
        )  # of two seconds before the new beginning nobody knows
        assert reported == {
            "1": (3600, pytest.approx(3600 * per_s), 0, None),
            "2": (5385, pytest.approx(5385 * per_s), 0, None),
            "3": (4785, pytest.approx(4785 * per_s), 0, None),
            "4": shared,
            "5": shared,
        }
        assert {row["device"] for row in result.values()} == {"mlx5_0/1" if metric.startswith("ib_") else "s:/data"}


def test_no_rate_is_negative_or_greater_than_what_was_counted(warehouse: Path) -> None:
    with open_reader(warehouse) as reader:
        samples = reader.table("node_samples")
    for metric, per_s in COUNTERS.values():
        values = samples.filter(metric=metric)["value"]
        assert values.len() > 300
        assert values.min() > 0.9 * per_s  # type: ignore[operator]  # polars types its aggregates loosely
        assert values.max() <= per_s * 1.000001  # type: ignore[operator]  # as above


def test_xids_are_stored_once_and_joined_to_the_touched_jobs(warehouse: Path) -> None:
    with open_reader(warehouse) as reader:
        events = reader.table("health_events").sort("ts")
        touched = reader.table("attempt_health").sort("job_id")
        incidents = reader.table("health_incidents").sort("started_at")
    seen = [(row["node"], row["gpu"], row["code"], row["ts"] - START) for row in events.iter_rows(named=True)]
    assert set(events["kind"]) == {"xid"}
    assert seen == [("n1", "1", "31", timedelta(seconds=510)), ("n2", "0", "79", timedelta(seconds=5370))]
    assert incidents.select("node", "n_attempts").rows() == [("n1", 1), ("n2", 1)]
    assert touched.select("job_id", "node", "n_events", "at_end").rows() == [
        ("1", "n1", 1, False),
        ("2", "n2", 1, True),
    ]


def test_exactly_the_minutes_read_of_each_gpu_are_stored(warehouse: Path) -> None:
    with open_reader(warehouse) as reader:
        samples = reader.table("gpu_samples").filter(pl.col("ts") >= START)
    minutes = {(node, gpu, -(-second // 60) - 1) for node, gpu in BUSY for second in scrapes(node)[1:]}
    result = [(row["node"], row["gpu"], (row["ts"] - START).seconds // 60) for row in samples.iter_rows(named=True)]
    assert len(result) == len(minutes)
    assert set(result) == minutes
