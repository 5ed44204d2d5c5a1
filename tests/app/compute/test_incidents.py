"""From readings to incidents in a warehouse: what went wrong, on which attempts, and which ends it explains."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from app.compute import pipeline as computing
from app.config.settings import Config
from ingest.prometheus.health import events as health
from ingest.prometheus.store import samples as writing
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from ingest.store.request import from_file
from ingest.tables import REJECTS, Parsed, empty
from queries.warehouse import open_reader, open_writer
from tests.support.telemetry.health_readings import Series, every, of_gpu, of_node, samples

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

T = 1_790_035_200  # 2026-09-22T00:00:00Z
NOW = datetime.fromtimestamp(T + 86_400, UTC)
HOUR = 3600
PORT = {"device": "mlx5_0", "port": "1"}


def job(number: int, node: str, begin: int, end: int, state: str) -> str:
    """A line of accounting: a job with all of a node's GPUs, from one second after T to another."""
    tres = "cpu=64,gres/gpu=8,node=1"
    ran = f"{T + begin}|{T + begin}|{T + begin}|{T + end}"
    return f"{number}|{number}|c|alice|lab|main|train|{state}|1:0|{ran}|1|{tres}|{node}\n"


SACCT = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|NNodes|AllocTRES"
    "|NodeList\n"
    + job(1, "n1", 0, 2 * HOUR, "FAILED")
    + job(2, "n2", 0, 2 * HOUR, "FAILED")
    + job(3, "n3", 0, 2 * HOUR, "FAILED")
    + job(4, "n1", 2 * HOUR + 600, 4 * HOUR, "COMPLETED")
    + job(5, "n4", 0, 4 * HOUR, "FAILED")
)


def steps(*values: tuple[int, int, float]) -> list[tuple[float, float]]:
    return [point for begin, end, value in values for point in every(15, T + begin, T + end, value)]


READINGS: list[Series] = [
    # n1: an uncorrectable error 5 minutes before job 1 failed, and a link that went down 3 minutes before.
    of_gpu("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", steps((0, 2 * HOUR - 300, 0), (2 * HOUR - 300, 4 * HOUR, 1)), gpu="3"),
    of_node("node_infiniband_link_downed_total", steps((0, 7020, 0), (7020, 4 * HOUR, 1)), **PORT),
    # n2: throttled when job 2 failed.
    of_gpu("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", steps((0, 7000, 0), (7000, 4 * HOUR, 64)), Hostname="n2"),
    # n3: an uncorrectable error an hour before job 3 failed.
    of_gpu("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", steps((0, HOUR, 0), (HOUR, 4 * HOUR, 1)), Hostname="n3"),
]


def load(warehouse: Path, readings: list[Series], *, times: int = 1) -> None:
    """Health events of readings, as a server's pieces bring them."""
    with open_writer(warehouse, verb="test", now=NOW) as writer:
        for _ in range(times):
            result = health.from_raw([samples(*readings)], cluster="c")
            parsed = Parsed(
                "prometheus.health",
                frozenset({"c"}),
                {"health_events": result.events},
                empty(REJECTS),
                rows_read=result.readings,
                rows_loaded=result.readings,
                covers_from=result.covers_from,
                covers_until=result.covers_until,
            )
            writing.load(writer, Config(), [parsed], "c", request=from_file("test"), digest="", now=NOW)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("health")
    root, accounting = folder / "warehouse", folder / "sacct.txt"
    accounting.write_text(SACCT)
    with open_writer(root, verb="test", now=NOW) as writer:
        reports = ingesting.ingest_files(
            writer, Config(), [str(accounting)], ingesting.Options(), now=NOW, progress=lambda *_: None
        )
        assert first_error(reports) is None
    load(root, READINGS, times=2)
    with open_writer(root, verb="test", now=NOW) as writer:
        computing.compute(writer, Config(), now=NOW)
    return root


def table(warehouse: Path, name: str, *by: str) -> pl.DataFrame:
    with open_reader(warehouse) as reader:
        return reader.table(name).sort(by)


def test_events_loaded_repeatedly_are_stored_once(warehouse: Path) -> None:
    result = table(warehouse, "health_events", "node", "ts")
    assert result.select("node", "kind", "code", "severity").rows() == [
        ("n1", "ecc", "dbe", "critical"),
        ("n1", "ib", "link_downed", "critical"),
        ("n2", "throttle", "hw_thermal", "warning"),
        ("n3", "ecc", "dbe", "critical"),
    ]


def test_incidents_are_events_that_belong_together(warehouse: Path) -> None:
    result = table(warehouse, "health_incidents", "node")
    assert result.select("node", "severity", "n_events", "kinds", "gpus", "n_attempts").rows() == [
        ("n1", "critical", 2, "ecc dbe, ib link_downed", "3", 1),
        ("n2", "warning", 1, "throttle hw_thermal", "0", 1),
        ("n3", "critical", 1, "ecc dbe", "0", 1),
    ]
    assert result["started_at"][0] == datetime.fromtimestamp(T, UTC) + timedelta(seconds=2 * HOUR - 300)
    assert result["action"][0].startswith("check cable, transceiver and switch port; reset the GPU;")


def test_attempts_are_touched_and_some_of_them_at_their_end(warehouse: Path) -> None:
    result = table(warehouse, "attempt_health", "node")
    assert result.select("node", "job_id", "n_events", "severity", "at_end").rows() == [
        ("n1", "1", 2, "critical", True),
        ("n2", "2", 1, "warning", True),
        ("n3", "3", 1, "critical", False),
    ]


def test_only_what_may_be_why_explains_an_end(warehouse: Path) -> None:
    result = table(warehouse, "interruptions", "job_id")
    assert result.select("job_id", "class", "cause", "node").rows() == [
        ("1", "infrastructure", "ib", "n1"),
        ("2", "user", "failed", None),
        ("3", "user", "failed", None),
        ("5", "user", "failed", None),
    ]
    assert (
        result["detail"][0]
        == "ib link_downed: an InfiniBand link went down: mlx5_0/1 (+1) on n1 at 2026-09-22T01:57:00Z"
    )


@pytest.mark.slow
def test_computing_again_changes_nothing(warehouse: Path) -> None:
    before = [table(warehouse, name, "node") for name in ("health_incidents", "attempt_health")]
    with open_writer(warehouse, verb="test", now=NOW) as writer:
        computing.compute(writer, Config(), now=NOW)
    after = [table(warehouse, name, "node") for name in ("health_incidents", "attempt_health")]
    assert all(one.equals(other) for one, other in zip(before, after, strict=True))
