"""From files to what attempts did with their GPUs: `attempt_activity`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

from queries.warehouse import open_reader
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

MIDNIGHT = 1_790_035_200  # 2026-09-22T00:00:00Z
HOUR = 3600
START, END = MIDNIGHT - HOUR, MIDNIGHT + HOUR


def job(number: int, user: str, node: str, gpus: int, name: str = "train") -> str:
    """A line of accounting: a job to the end of the second hour."""
    tres = f"cpu=64,gres/gpu={gpus},node=1"
    return f"{number}|{number}|c|{user}|lab|main|{name}|COMPLETED|0:0|{START}|{START}|{START}|{END}|1|{tres}|{node}\n"


SACCT = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|NNodes|AllocTRES"
    "|NodeList\n"
    + job(1, "alice", "n1", 2)
    + job(2, "alice", "n2", 1)
    + job(3, "bob", "n2", 1)
    + job(4, "root", "n3", 2, "hpc-verification")
    + job(5, "alice", "n4", 2)
)
BUSY = {"0": 100, "1": 40}
"""Percent of utilisation of the GPUs of n1, n2 and n3; nobody reads n4's."""


def readings(*, gap: range = range(0)) -> str:
    """Every 60 s the utilisation and the power of two GPUs of three nodes; GPU 1 is idle in the second hour."""
    found = []
    for second in range(START + 60, END + 1, 60):
        if second in gap:
            continue
        for node in ("n1", "n2", "n3"):
            for gpu, util in BUSY.items():
                labels = f'gpu="{gpu}",UUID="GPU-{node}-{gpu}",Hostname="{node}"'
                value = 0 if gpu == "1" and second > MIDNIGHT else util
                found += [f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {value} {second}",
                          f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} {300 if value else 100} {second}"]  # fmt: skip
    return "\n".join([*found, "# EOF"]) + "\n"


def computed(folder: Path, text: str, *arguments: str) -> dict[str, dict[str, object]]:
    """Rows by job."""
    (folder / "sacct.txt").write_text(SACCT)
    (folder / "gpus.om").write_text(text)
    for verb in (
        ("ingest", "slurm", str(folder / "sacct.txt")),
        ("ingest", "prometheus", "--cluster", "c", str(folder / "gpus.om")),
        ("compute", *arguments),
        ("compute", "--full", *arguments),  # what it replaces is not doubled
    ):
        done = trackside(*verb, "--warehouse", str(folder / "w"))
        assert done.returncode == 0, done.stderr
    with open_reader(folder / "w") as reader:
        rows = reader.table("attempt_activity")
    assert rows["job_id"].n_unique() == rows.height
    return {row["job_id"]: row for row in rows.iter_rows(named=True)}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    return computed(tmp_path_factory.mktemp("found"), readings())


@pytest.mark.slow
def test_utilisation_idle_time_and_energy_span_midnight(found: dict[str, dict[str, object]]) -> None:
    own = found["1"]
    assert own["submitted_at"] == datetime.fromtimestamp(START, UTC)
    assert (own["n_samples"], own["observed_s"], own["unattributed_s"]) == (240, 4 * HOUR, 0)
    assert (own["judged_s"], own["idle_s"], own["verification"]) == (4 * HOUR, HOUR, False)
    assert (own["gpu_util_s"], own["gpu_util_sum"]) == (4 * HOUR, pytest.approx(2.4 * HOUR))
    assert (own["power_s"], own["energy_j"]) == (4 * HOUR, pytest.approx((3 * 300 + 100) * HOUR))
    assert (own["tensor_active_s"], own["tensor_active_sum"]) == (0, None)


def test_unknown_values_are_null_and_their_time_is_counted(found: dict[str, dict[str, object]]) -> None:
    for one in (found["2"], found["3"]):
        assert (one["observed_s"], one["unattributed_s"], one["idle_s"], one["energy_j"]) == (0, 2 * HOUR, None, None)
    assert found["4"]["verification"] is True
    assert "5" not in found


@pytest.mark.slow
def test_a_gap_in_the_samples_is_no_idle_time(tmp_path: Path) -> None:
    found = computed(tmp_path, readings(gap=range(MIDNIGHT + 1, MIDNIGHT + HOUR // 2 + 1)))
    assert (found["1"]["observed_s"], found["1"]["idle_s"]) == (3 * HOUR, HOUR / 2)


@pytest.mark.slow
def test_without_samples_there_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "sacct.txt").write_text(SACCT)
    for verb in (("ingest", "slurm", str(tmp_path / "sacct.txt")), ("compute",)):
        assert trackside(*verb, "--warehouse", str(tmp_path / "w")).returncode == 0
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("attempt_activity").is_empty()


@pytest.mark.slow
def test_only_samples_of_the_window_count(tmp_path: Path) -> None:
    found = computed(tmp_path, readings(), "--since", "2026-09-22T00:00:00Z")
    assert (found["1"]["observed_s"], found["1"]["idle_s"]) == (2 * HOUR, HOUR)
    assert pl.Series([row["n_samples"] for row in found.values()]).max() == 120
