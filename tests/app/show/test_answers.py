"""What `trackside show` says beside its numbers: which run is meant, and what to do about a node."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.results import advice
from app.results.failures.interruptions import node_failures
from app.window import Window
from tests.support.command import trackside
from tests.support.sources import KeepsNothing

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW = 1_790_000_000, 1_792_000_000  # 2026-09-21T14:13:20Z and 2026-10-14T17:46:40Z
SEPTEMBER = ("--until", "2026-10-01")
OLD_77, NEW_77 = "77-20260921T141320Z", "77-20261014T174640Z"
SEVERAL = "2 runs have a job 77 (Slurm uses job ids again, and jobs of an array share one), the newest first"


def row(job: str, raw: str, user: str, submit: int, node: str) -> str:
    times = f"{submit}|{submit}|{submit + 100}|{submit + 10_100}"
    return f"{job}|{raw}|c1|gpu|a|{user}|{times}|COMPLETED|0:0|1|gres/gpu=8,node=1|{node}|train\n"


SACCT = (
    "JobID|JobIDRaw|Cluster|Partition|Account|User|Submit|Eligible|Start|End|State|ExitCode|NNodes|AllocTRES|NodeList|"
    "JobName\n"
    + row("77", "77", "alice", OLD, "n1")
    + row("77", "77", "bob", NEW, "n1")
    + row("90_1", "91", "bob", NEW, "n2")
    + row("90_2", "92", "bob", NEW, "n3")
)


@pytest.fixture(scope="module")
def reused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Job 77 of alice in September and of bob in October, and an array of two."""
    folder = tmp_path_factory.mktemp("reused")
    (folder / "sacct.txt").write_text(SACCT)
    for arguments in (("ingest", "slurm", str(folder / "sacct.txt")), ("compute",)):
        done = trackside(*arguments, "--warehouse", str(folder / "w"))
        assert done.returncode == 0, done.stderr
    return folder / "w"


def shown(root: Path, *arguments: str) -> str:
    done = trackside("show", *arguments, "--warehouse", str(root))
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_ids(root: Path, *arguments: str) -> list[str]:
    return [each["run_id"] for each in json.loads(shown(root, *arguments, "--format", "json"))]


@pytest.mark.parametrize("what", ["ettr", "runs"])
def test_job_id_of_several_runs_shows_all_newest_first(what: str, reused: Path) -> None:
    """A hint says how to choose one of them."""
    assert run_ids(reused, what, "--run", "77") == [NEW_77, OLD_77]
    output = shown(reused, what, "--run", "77")
    assert f"{SEVERAL}: {NEW_77}, {OLD_77}." in output
    assert f"--run {NEW_77}\n" in output
    assert "= productive /" not in output, "the arithmetic of one would be read as that of the other"


@pytest.mark.slow
def test_an_array_is_all_its_tasks(reused: Path) -> None:
    assert len(run_ids(reused, "ettr", "--run", "90")) == 2
    assert "2 runs have a job 90" in shown(reused, "ettr", "--run", "90")


def test_mfu_of_a_job_id_of_several_runs_reports_them_too(reused: Path) -> None:
    assert "2 runs have a job 77" in shown(reused, "mfu", "--run", "77")


def test_one_run_is_spelled_out_and_no_choice_is_offered(reused: Path) -> None:
    output = shown(reused, "ettr", "--run", OLD_77)
    assert f"ETTR of run {OLD_77} = productive /" in output
    assert "To choose one" not in output
    assert "To choose one" not in shown(reused, "ettr", "--by", "run")


def test_one_run_in_the_window_is_explained_and_others_are_named(reused: Path) -> None:
    output = shown(reused, "ettr", "--run", "77", *SEPTEMBER)
    assert f"ETTR of run {OLD_77} = productive /" in output
    assert f"{SEVERAL}: {NEW_77}" in output


@pytest.mark.slow
@pytest.mark.parametrize("what", ["ettr", "runs"])
def test_run_without_time_in_the_window_differs_from_an_unknown(what: str, reused: Path) -> None:
    done = trackside("show", what, "--run", NEW_77, *SEPTEMBER, "--warehouse", str(reused))
    assert done.returncode == 2
    assert "in this window; take a longer one (--since)" in done.stderr


WINDOW = Window("c", datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))


class Costs(KeepsNothing):
    """A source of nothing but interruptions with their costs."""

    def __init__(self, *rows: tuple[str | None, str, str | None, float | None]) -> None:
        schema = {"node": pl.String, "class": pl.String, "cause": pl.String, "cost_gpu_s": pl.Float64}
        self.rows = pl.DataFrame(rows, schema=schema, orient="row").with_columns(
            cluster=pl.lit("c"), ended_at=WINDOW.until
        )

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """The rows."""
        assert name == "interruption_costs"
        assert params["cluster"] == "c"
        return self.rows


def failures(*rows: tuple[str | None, str, str | None, float | None]) -> pl.DataFrame:
    return node_failures(Costs(*rows), WINDOW)


def test_unobserved_cost_is_not_zero_and_sums_name_the_missing() -> None:
    result = failures(
        ("n1", "infrastructure", "xid_79", 7200.0),
        ("n1", "infrastructure", "xid_79", None),
        ("n1", "infrastructure", "node_fail", 3600.0),
        ("n2", "infrastructure", "node_fail", None),
        ("n3", "infrastructure", "node_fail", 0.0),
        ("n3", "user", "oom", 9e9),
        (None, "infrastructure", "node_fail", 9e9),
    )
    assert result.select("node", "interruptions", "unpriced", "cause", "cost_gpu_s").rows() == [
        ("n1", 3, 1, "xid_79", 10_800.0),
        ("n2", 1, 1, "node_fail", None),
        ("n3", 1, 0, "node_fail", 0.0),
    ]


def times(number: int, node: str, cost: float | None, cause: str | None = "node_fail") -> list[Any]:
    return [(node, "infrastructure", cause, cost)] * number


def test_drain_is_advised_from_three_failures_for_the_costliest() -> None:
    assert advice.drain(failures()) is None
    assert advice.drain(failures(*times(2, "n1", 9e9))) is None
    result = advice.drain(failures(*times(2, "n1", 9e9), *times(3, "n2", 360.0), *times(4, "n3", 3600.0)))
    assert result is not None
    assert result[0].startswith("n3 interrupted 4 attempts, which cost 4.00 GPU-h.")
    assert result[1] == "scontrol update NodeName=n3 State=DRAIN Reason='trackside: 4 interruptions, mostly node_fail'"


def test_advice_reports_the_unobserved_part_of_the_cost() -> None:
    nothing = advice.drain(failures(*times(3, "n1", None, None)))
    assert nothing is not None
    assert "n1 interrupted 3 attempts, at unknown cost." in nothing[0]
    assert nothing[1].endswith("Reason='trackside: 3 interruptions'")
    part = advice.drain(failures(*times(2, "n1", 3600.0), *times(1, "n1", None)))
    assert part is not None
    assert "which cost at least 2.00 GPU-h" in part[0]


def test_a_drain_command_is_safe_to_paste_into_a_shell() -> None:
    result = advice.drain(failures(*times(3, "n1; reboot", 1.0, "it's $(down)")))
    assert result is not None
    assert shlex.split(result[1]) == [
        "scontrol", "update", "NodeName=n1; reboot", "State=DRAIN",
        "Reason=trackside: 3 interruptions, mostly it's $(down)",
    ]  # fmt: skip
