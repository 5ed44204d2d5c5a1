"""The page's lines about CPUs, memory and GPUs: from real accounting of the lab, and from records of other sites."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command import trackside
from tests.support.slurm.parsing import DATA

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REAL = (DATA / "usage.sacct.txt").read_text()


def edited(text: str, job_step: str, **cells: str) -> str:
    """Accounting with other values in the first row of a job or step."""
    lines = text.splitlines()
    names = lines[0].split("|")
    at = next(i for i, line in enumerate(lines) if line.split("|")[names.index("JobIDRaw")] == job_step)
    row = lines[at].split("|")
    for name, value in cells.items():
        row[names.index(name)] = value
    return "\n".join([*lines[:at], "|".join(row), *lines[at + 1 :]]) + "\n"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """The page of a job of a dump."""
    made: dict[str, Path] = {}

    def of(job: str, text: str = REAL, *options: str) -> str:
        if text not in made:
            folder = made[text] = tmp_path_factory.mktemp("use")
            (folder / "sacct.txt").write_text(text)
            at = ("--warehouse", str(folder / "w"))
            for command in (("ingest", "slurm", str(folder / "sacct.txt"), *at), ("compute", *at)):
                done = trackside(*command)
                assert done.returncode == 0, done.stderr
        done = trackside("run", job, "--warehouse", str(made[text] / "w"), *options)
        assert done.returncode == 0, done.stderr
        return done.stdout if options else " ".join(done.stdout.split())

    return of


def test_cpus_and_memory_are_those_of_seff(page: Callable[..., str]) -> None:
    """TotalCPU over Elapsed x AllocCPUS; the largest TRESUsageInTot over the memory allocated."""
    two_nodes = page("4")
    assert "CPUs 10.0 % used: 3.6 s of 36 s of CPU time held (Slurm)" in two_nodes
    assert "1.6 GiB held (800.0 MiB a node) used at most 632.1 MiB, 39.5 % of it" in two_nodes
    assert "(248.0 MiB in one task on n2; samples of Slurm)" in two_nodes
    assert "CPUs and memory used" not in two_nodes


@pytest.mark.slow
def test_memory_above_what_was_held_explains_a_failure(page: Callable[..., str]) -> None:
    killed = page("3")
    assert "100.0 MiB held used at most 242.1 MiB, 242.1 % of it (most on n1; samples of Slurm)" in killed
    assert "more than it held: the likely reason of its failure; request more" in killed


@pytest.mark.slow
def test_out_of_memory_counts_where_the_sample_missed_the_peak(page: Callable[..., str]) -> None:
    """As a cgroup ends it: the highest sample of a real one was 3 MiB of 100."""
    text = edited(REAL, "3", State="OUT_OF_MEMORY")
    text = edited(text, "3.batch", MaxRSS="3248128", TRESUsageInTot="mem=3248128", State="OUT_OF_MEMORY")
    killed = page("3", text)
    assert "used at most 3.1 MiB, 3.1 % of it" in killed
    assert "killed for lack of memory (OUT_OF_MEMORY): a sample can miss the peak; request more" in killed


def test_all_attempts_of_a_run_count(page: Callable[..., str]) -> None:
    requeued = page("5")
    assert "CPUs 2.2 % used: 0.2 s of 9 s of CPU time held (Slurm)" in requeued
    assert "used at most 161.0 MiB, 32.2 % of it" in requeued


@pytest.mark.slow
def test_lost_step_makes_cpu_time_a_least(page: Callable[..., str]) -> None:
    usage = dict.fromkeys(("MaxRSS", "TRESUsageInTot", "TRESUsageInMax", "TRESUsageInAve"), "")
    lost = page("4", edited(REAL, "4.0", TotalCPU="00:00:00", **usage))
    assert "CPUs at least 10.0 % used" in lost
    assert "no record of 1 step: they were cut off, or still run" in lost


def test_jobstats_answers_for_gpus_without_telemetry(page: Callable[..., str]) -> None:
    busy = page("1")
    assert "Utilisation busy 61.5 %, the mean of its GPUs (jobstats)" in busy
    assert "GPU memory at most 3.8 GiB of 80.0 GiB in use" in busy
    assert "CPUs 50.6 % used: 8.1 s of 16 s of CPU time held (jobstats)" in busy
    assert "no telemetry of its GPUs" not in busy


@pytest.mark.slow
def test_samples_of_slurm_give_a_bound_and_no_mean(page: Callable[..., str]) -> None:
    text = edited(REAL, "2.batch", TRESUsageInMax="mem=326238208,gres/gpuutil=40,gres/gpumem=2048M")
    text = edited(text, "2.batch", ConsumedEnergyRaw="7200000")
    sampled = page("2", text)
    assert "mean unknown; a task was at 40 % of a GPU in its highest sample (Slurm): busy 40.0 % at most" in sampled
    assert "GPU memory at most 2.0 GiB in one task (samples of Slurm)" in sampled
    assert "Energy 2.0 kWh of its nodes while it ran, shared ones whole (Slurm)" in sampled
    zero = page("2", edited(REAL, "2.batch", TRESUsageInMax="mem=326238208,gres/gpuutil=0"))
    assert "0 may also mean that Slurm cannot measure these GPUs (MIG, no NVML)" in zero
    assert "at most" not in zero.partition("Utilisation")[2].partition("CPUs")[0]


@pytest.mark.slow
def test_dump_without_steps_gets_the_options_that_bring_them(page: Callable[..., str]) -> None:
    lines = REAL.splitlines()
    at = lines[0].split("|").index("JobIDRaw")
    total = lines[0].split("|").index("TotalCPU")
    jobs = [line.split("|") for line in lines[1:] if "." not in line.split("|")[at]]
    alone = ["|".join([*job[:total], "00:00:00", *job[total + 1 :]]) for job in jobs]
    assert "CPUs and memory used: no record of its steps (sacct without -X, -o ALL)" in page(
        "4", "\n".join([lines[0], *alone]) + "\n"
    )


def test_document_has_the_parts_of_each_share(page: Callable[..., str]) -> None:
    document: dict[str, Any] = json.loads(page("1", REAL, "--format", "json"))
    rows = {row["source"]: row for row in document["recorded_use"]}
    assert set(rows) == {"jobstats", "slurm"}
    for row in rows.values():
        assert row["cpu_share"] == pytest.approx(row["cpu_s"] / row["cpu_held_s"])
        assert row["memory_share"] == pytest.approx(row["used_bytes"] / row["held_bytes"])
    assert rows["jobstats"]["gpu_util_sum"] / rows["jobstats"]["gpu_util_s"] == pytest.approx(0.615)
