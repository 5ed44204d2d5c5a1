"""What interruptions cost by cause and by order, and every stage of restarts, as `trackside show` answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.results.failures.interruptions import every_restart, interruption_costs, restart_rows, second_order_rows
from app.window import Window
from metrics import frames
from queries.warehouse import open_reader, open_writer
from tests.app.results.failures.test_interruptions import HEADER, START, load, logged_lines, whole
from tests.support.command import trackside
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from pathlib import Path

KEY = {"cluster": "c1", "scheduler": "slurm", "job_id": "7", "submitted_at": NOW}


def row(job: str, times: tuple[int, int, int], state: str, nodes: int, held: str) -> str:
    """A line of sacct: submitted, started and ended so many seconds after `START`."""
    submit, start, end = (START + second for second in times)
    gpus = f"gres/gpu={8 * nodes},node={nodes}"
    return f"{job}|{job}|c1|gpu|a|u{job}|{submit}|{submit}|{start}|{end}|{state}|0:0|{nodes}|{gpus}|{held}|train\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Job 7 crashes within its allocation, then its node fails; coming back it pushes 8 and 9 out, but not 10."""
    sacct = HEADER + "".join(
        [
            row("7", (0, 0, 3000), "NODE_FAIL", 2, "n[1-2]"),
            row("7", (3000, 3100, 4000), "COMPLETED", 2, "n[3-4]"),
            row("8", (0, 0, 3090), "PREEMPTED", 1, "n3"),
            row("9", (2400, 2490, 3090), "PREEMPTED", 1, "n4"),
            row("10", (0, 0, 3600), "PREEMPTED", 1, "n5"),
            row("11", (0, 0, 900), "FAILED", 1, "n6"),
        ]
    )
    event = f"Cluster|NodeName|TimeStart|TimeEnd|State|StateRaw|Reason|User\nc1|n2|{START + 2980}|{START + 3600}|DOWN|1|Not responding|slurm\n"  # noqa: E501 - one file
    lines = [
        *logged_lines("7", 0, START, range(50), START),
        *logged_lines("7", 0, START + 520, range(10, 250), START + 530),
        *logged_lines("7", 1, START + 3110, range(240, 320), START + 3130),
    ]
    log = "".join(json.dumps(line | ({"n_gpus": 16} if line["type"] == "run" else {})) + "\n" for line in lines)
    return load(tmp_path_factory.mktemp("orders"), {"sacct.txt": sacct, "events.txt": event}, {"run.jsonl": log})


def shown(root: Path, *requested: str) -> list[dict[str, Any]]:
    done = trackside("show", *requested, "--format", "json", "--warehouse", str(root))
    assert done.returncode == 0, done.stderr
    result: list[dict[str, Any]] = json.loads(done.stdout)
    return result


@pytest.mark.slow
def test_interruption_lists_possible_domains_and_node_events(root: Path) -> None:
    result = {each["job_id"]: each for each in shown(root, "interruptions")}
    assert (result["7"]["domains"], result["7"]["events"]) == ("software,hardware", "node_down (n2)")
    assert (result["11"]["class"], result["11"]["domains"], result["11"]["events"]) == (
        "user",
        "user,software,hardware",
        None,
    )
    assert result["8"]["domains"] is None
    assert (result["8"]["made_room_for"], result["8"]["made_room_for_attempt"], result["8"]["second_order"]) == (
        "llama",
        2,
        True,
    )
    assert (result["10"]["made_room_for"], result["10"]["second_order"]) == (None, None)
    only = shown(root, "interruptions", "--run", "8")
    assert [each["job_id"] for each in only] == ["8"]


def test_interruptions_are_summed_up_by_order_of_loss(root: Path) -> None:
    result = {each["order"]: each for each in shown(root, "interruptions", "--by", "order")}
    assert {name: each["n"] for name, each in result.items()} == {"first": 1, "second": 2, "unknown": 1, "none": 1}
    # What is not logged cannot be priced; the node failure cost what the test of restarts in place says, on 2 nodes.
    assert result["first"]["cost_gpu_s"] == 16 * (100 + 10 + 60 + 30)
    assert result["second"]["cost_gpu_s"] is None
    assert result["second"]["n_unpriced"] == 2
    assert result["second"]["imputed_gpu_s"] == 8 * (1800 + 600)


@pytest.mark.parametrize("by", ["class", "cause", "node"])
def test_interruptions_are_summed_up_and_lose_none(root: Path, by: str) -> None:
    result = shown(root, "interruptions", "--by", by)
    assert sum(each["n"] for each in result) == 5
    assert sum(each["share"] or 0 for each in result) == pytest.approx(1)
    infrastructure = {"class": "infrastructure", "cause": "node_fail", "node": "n2"}[by]
    assert result[0][by] == infrastructure


def test_second_order_share_has_bounds_for_unknown_preemptors(root: Path) -> None:
    with open_reader(root) as reader:
        result = {each["metric"]: each for each in second_order_rows(reader, whole(root)).to_dicts()}
        stored = reader.table("cluster_metrics").filter(pl.col("metric") == "second_order_share")
    first, second, unknown = 1800 * 16, 8 * (1800 + 600), 1800 * 8
    assert result["lost_imputed_first_order"]["value"] == first
    assert result["lost_imputed_second_order"]["value"] == second
    share = result["second_order_share"]
    assert share["value"] == share["bound_low"] == pytest.approx(second / (first + second))
    assert share["bound_high"] == pytest.approx((second + unknown) / (first + second + unknown))
    assert result["lost_second_order"]["value"] is None
    assert share["value"] in stored["value"].to_list()


def test_in_place_restarts_are_separate_in_every_format(root: Path) -> None:
    by_cause = {(each["where"], each["cause"]): each for each in shown(root, "restarts")}
    assert by_cause["new attempt", "node_fail"]["median_s"] == 100
    assert by_cause["in allocation", "restart_in_place"]["median_s"] == 20
    each = {one["where"]: one for one in shown(root, "restarts", "--by", "event")}
    assert each["new attempt"]["detected_by"] == "node_down"
    assert each["new attempt"]["time_to_terminate_s"] == 20
    assert each["in allocation"]["time_to_first_step_s"] == 40
    with open_reader(root) as reader:
        assert restart_rows(reader, whole(root))["in_allocation"].to_list() == [False]
        assert every_restart(reader, whole(root)).height == 2


def test_every_stage_of_restarts_has_an_n_of_its_own(root: Path) -> None:
    result = {
        (each["where"], each["stage"]): (each["n"], each["median_s"], each["mean_s"])
        for each in shown(root, "restarts", "--by", "stage")
        if each["cause"] == "all"
    }
    # Steps stop at 2930 s, the node is down at 2980, its job over at 3000, started again at 3100; a step is at 3140.
    expected = {"detect": 50, "terminate": 20, "job restart": 100, "launch": 10, "warm-up": 30, "first step": 210}
    assert {stage: result["new attempt", stage] for stage in expected} == {
        stage: (1, seconds, seconds) for stage, seconds in expected.items()
    }
    assert result["in allocation", "first step"] == (1, 40, 40)
    assert ("in allocation", "detect") not in result
    assert ("in allocation", "queue") not in result


@pytest.mark.parametrize(
    "requested", [("restarts",), ("restarts", "--by", "stage"), ("interruptions", "--by", "order")]
)
def test_what_is_shown_explains_itself(root: Path, requested: tuple[str, ...]) -> None:
    done = trackside("show", *requested, "--explain", "--warehouse", str(root))
    assert done.returncode == 0, done.stderr
    for word in ("definition", "SELECT", "interval"):
        assert word in done.stdout


def test_of_one_run_only_its_own_are_shown(root: Path) -> None:
    assert {each["run_id"] for each in shown(root, "restarts", "--by", "event", "--run", "llama")} == {"llama"}
    assert shown(root, "restarts", "--by", "stage", "--run", "8") == []
    refused = trackside("show", "interruptions", "--by", "order", "--run", "8", "--warehouse", str(root))
    assert refused.returncode != 0
    assert "--run" in refused.stderr


@pytest.mark.parametrize(("evidence", "cost"), [("log", 8 * 600.0), ("telemetry", None)])
def test_restart_without_a_log_has_no_cost(tmp_path: Path, evidence: str, cost: float | None) -> None:
    """Telemetry sees that GPUs worked, and not whether the work was kept: no cost, not a cost of nothing."""
    hours = [NOW, NOW.replace(minute=NOW.minute + 30), NOW.replace(minute=NOW.minute + 40)]
    ledger = frames.conform(
        pl.DataFrame(
            [
                KEY | {"node": "n1", "state": "allocated", "category": what, "evidence": evidence, "milli_gpus": 8000}
                | {"started_at": since, "ended_at": until}
                for what, since, until in (("productive", *hours[:2]), ("stalled", *hours[1:]))
            ],
        ),
        frames.LEDGER,
    )  # fmt: skip
    ended = KEY | {
        "run_id": "r",
        "attempt_no": 1,
        "ended_at": hours[2],
        "state": "NODE_FAIL",
        "class": "infrastructure",
    }
    ended |= {"cause": "node_fail", "n_nodes": 1, "n_gpus": 8, "runtime_s": 2400.0, "evidence": "accounting"}
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer, writer.transaction():
        writer.run("insert_gpu_time", {"ledger": ledger, "straggling": frames.empty(frames.STRAGGLING)})
        writer.append("interruptions", pl.DataFrame([ended]).with_columns(pl.col("n_gpus").cast(frames.GPUS)))
        joined = pl.DataFrame([KEY | {"run_id": "r", "attempt_no": 1, "joined_by": "single"}])
        writer.append("run_attempts", joined)
    with open_reader(tmp_path / "w") as reader:
        window = Window("c1", NOW, NOW.replace(year=NOW.year + 1))
        assert interruption_costs(reader, window)["cost_gpu_s"].to_list() == [cost]
