"""One interruption of a run is one: listed, counted, priced and blamed once, whatever its job was made of."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from app.claims.contract import Contract
from app.compute import pipeline as computing
from app.config.settings import Config
from app.explorer.pages import overview
from app.reports.sla import document as sla
from app.results.failures.failure_rates import failure_rate_rows
from app.results.failures.interruptions import interruption_costs
from app.results.goodput import lost_imputed_rows
from app.results.serving.cache import AnswerCache
from app.service import exporter
from app.times import parse_period
from app.window import Window
from ingest.runlog import store as runlogs
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from metrics import frames
from metrics.restarts.restarts import once
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from queries.warehouse import Reader

START = 1_790_000_000  # 2026-09-21T14:13:20Z
END = START + 10_000
HEADER = (
    "JobID|JobIDRaw|Cluster|Partition|Account|User|Submit|Eligible|Start|End|State|ExitCode|NNodes|AllocTRES|NodeList|"
    "JobName\n"
)
SLURM_CONF = """\
Configuration data as of 2026-09-21T20:00:00
ClusterName             = c1
SlurmdTimeout           = 300 sec
"""
RUN = "100-20260921T141320Z"


def component(number: int, submit: int, state: str) -> str:
    """A component of job 100, on node n1 or n2, that runs for 10,000 s once it has waited for 100.

    Its name tells what it does, so that its time is seen and has a cost.
    """
    times = f"{submit}|{submit}|{submit + 100}|{submit + 100 + 10_000}"
    held = f"1|gres/gpu=8,node=1|n{number + 1}|eval"
    return f"100+{number}|{100 + number}|c1|gpu|a|u|{times}|{state}|0:0|{held}\n"


def load(root: Path, texts: Mapping[str, str], logs: Mapping[str, str] | None = None) -> Path:
    """A computed warehouse of dumps of Slurm and of run logs."""
    settings = Config()
    for name, text in {**texts, **(logs or {})}.items():
        (root / name).write_text(text)
    with open_writer(root / "w", verb="test", now=NOW) as writer:
        files, requested = [str(root / name) for name in texts], ingesting.Options(cluster="c1")
        reports = ingesting.ingest_files(writer, settings, files, requested, now=NOW, progress=_silent)
        if logs:
            reports += runlogs.ingest_files(
                writer, [str(root / name) for name in logs], cluster="c1", now=NOW, progress=_silent
            )
        assert first_error(reports) is None
        computing.compute(writer, settings, now=NOW)
    return root / "w"


def _silent(_what: str, _done: int, _all: int) -> None:
    pass


def heterogeneous(root: Path, failed: int) -> Path:
    """A job of two components whose node `failed` dies: Slurm ends both, and requeues both."""
    again = END + 100
    sacct = HEADER + "".join(
        component(number, submit, state)
        for submit, state in ((START, "NODE_FAIL"), (again, "COMPLETED"))
        for number in (0, 1)
    )
    event = "Cluster|NodeName|TimeStart|TimeEnd|State|StateRaw|Reason|User\n"
    event += f"c1|n{failed}|{again}|{again + 50}|DOWN|1|Not responding|slurm\n"
    return load(root, {"sacct.txt": sacct, "events.txt": event, "config.txt": SLURM_CONF})


@pytest.fixture(scope="module", params=[1, 2])
def het(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The warehouse and the node that failed."""
    return heterogeneous(tmp_path_factory.mktemp("het"), request.param), f"n{request.param}"


def whole(root: Path) -> Window:
    with open_reader(root) as reader:
        computed = reader.query("computed", cluster="c1").row(0, named=True)
    return Window("c1", computed["since"], computed["until"])


def incidents(reader: Reader) -> dict[str, Any]:
    """The incidents of a report on September."""
    window = Window("c1", *parse_period("2026-09"))
    result: dict[str, Any] = sla.document(reader, window, "2026-09", Contract(()), sla.origin_of_claims(None))[
        "incidents"
    ]
    return result


def shown(root: Path, what: str) -> list[dict[str, Any]]:
    done = trackside("show", what, "--format", "json", "--warehouse", str(root))
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


@pytest.mark.slow
def test_het_job_is_listed_once_with_all_its_gpus_and_its_cost(het: tuple[Path, str]) -> None:
    root, node = het
    with open_reader(root) as reader:
        ledger = reader.table("gpu_time").filter(pl.col("category") == "stalled")
    stalled = float(ledger["gpu_seconds"].sum())
    assert stalled > 0
    assert set(ledger["node"]) == {node}
    (row,) = shown(root, "interruptions")
    assert (row["run_id"], row["attempt_no"], row["node"], row["n_nodes"]) == (RUN, 1, node, 2)
    assert float(row["n_gpus"]) == 16
    assert row["cost_gpu_s"] == stalled


@pytest.mark.slow
def test_only_the_node_that_failed_is_blamed_for_a_het_job(het: tuple[Path, str]) -> None:
    root, failed = het
    result = {row["node"]: (row["interruptions"], row["cost_gpu_s"] > 0) for row in shown(root, "nodes")}
    assert result == {"n1": (0, False), "n2": (0, False)} | {failed: (1, True)}


@pytest.mark.slow
def test_a_het_job_is_one_interruption_in_every_count(het: tuple[Path, str]) -> None:
    root, node = het
    window = whole(root)
    with open_reader(root) as reader:
        listed, _ = overview.by_cost(reader, window, "infrastructure")
        counts = overview.interruption_counts(reader, window)
        costs = interruption_costs(reader, window)
        rates = failure_rate_rows(reader, window)
        assumed = lost_imputed_rows(reader, window).row(0, named=True)
        reported = incidents(reader)
    assert listed.select("run_id", "attempt_no", "node").rows() == [(RUN, 1, node)]
    assert costs.select("run_id", "attempt_no", "node").rows() == [(RUN, 1, node)]
    assert counts.select("class", "cause", "n").rows() == [("infrastructure", "node_fail", 1)]
    assert listed["cost_gpu_h"].item() * 3600 == pytest.approx(costs["cost_gpu_s"].item())
    pooled = rates.filter((pl.col("size") == "pooled") & (pl.col("class") == "infrastructure"))
    assert dict(pooled.select("counted", "n_failures").rows()) == {"attempts": 1, "incidents": 1}
    assert (assumed["n"], assumed["value"]) == (1, 1800 * 16)
    assert reported["interruptions_by_class"] == {"infrastructure": 1}
    assert (reported["n"], reported["n_incidents"], reported["by_cause"]) == (1, 1, {"node_fail": 1})
    text = exporter.negotiated(AnswerCache(root), "", now=NOW)[0].decode()
    (line,) = (
        line
        for line in text.splitlines()
        if line.startswith("trackside_failures_observed{")
        and 'class="infrastructure"' in line
        and 'window="all"' in line
    )
    assert float(line.split()[-1]) == 1


@pytest.mark.slow
def test_report_states_when_a_het_job_ran_again(het: tuple[Path, str]) -> None:
    root, node = het
    with open_reader(root) as reader:
        (incident,) = incidents(reader)["shown"]
    assert (incident["node"], incident["n_gpus"]) == (node, 16.0)
    assert incident["time_to_job_restart_s"] == 100.0
    assert incident["restarted_at"] is not None


_ENDS = (
    ("NODE_FAIL", "infrastructure", "node_fail", "n1", "down: Not responding on n1 at 2026-10-01T00:00:00Z"),
    ("NODE_FAIL", "infrastructure", "node_fail", "n2", "state NODE_FAIL"),
    ("NODE_FAIL", "infrastructure", "node_fail", None, "state NODE_FAIL"),
    ("FAILED", "infrastructure", "xid", "n3", "xid 79 on n3 at 2026-10-01T00:00:00Z"),
    ("FAILED", "user", "failed", None, None),
    ("FAILED", "user", "failed", None, "state FAILED"),
    ("CANCELLED", "user", "cancelled", None, "state CANCELLED"),
    ("PREEMPTED", "preemption", "preempted", None, "state PREEMPTED"),
)


def test_queries_choose_the_component_that_the_restarts_choose(tmp_path: Path) -> None:
    ids = (("9", "10"), ("10", "9"), ("x", "10"), ("a", "b"))
    result = [
        {"cluster": "c1", "run_id": f"r{number}", "scheduler": "slurm", "job_id": job, "submitted_at": NOW}
        | {"attempt_no": 1, "ended_at": NOW, "n_nodes": 1, "runtime_s": 1.0, "evidence": "accounting"}
        | dict(zip(("state", "class", "cause", "node", "detail"), end, strict=True))
        | {"milli_gpus": 8000}
        for number, (jobs, *ends) in enumerate(itertools.product(ids, _ENDS, _ENDS))
        for job, end in zip(jobs, ends, strict=True)
    ]
    table = frames.conform(pl.DataFrame(result, infer_schema_length=None), frames.INTERRUPTIONS)
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer, writer.transaction():
        gpus = (pl.col("milli_gpus").cast(pl.Decimal(18, 3)) / 1000).cast(frames.GPUS)
        writer.append("interruptions", table.with_columns(n_gpus=gpus).drop("milli_gpus"))
    requested = {"cluster": "c1", "since": NOW.replace(year=NOW.year - 1), "until": NOW}
    with open_reader(tmp_path / "w") as reader:
        listed = reader.query("interruptions", **requested)
        priced = reader.query("interruption_costs", **requested, of_class="")
        of_infrastructure = reader.query("interruption_costs", **requested, of_class="infrastructure")
    columns = ["run_id", "attempt_no", "job_id", "class", "cause", "node"]
    expected = once(table).sort("run_id")
    assert expected.height == len(ids) * len(_ENDS) ** 2
    more = ["state", "detail", "milli_gpus", "n_nodes"]
    assert listed.sort("run_id").select(columns + more).rows() == expected.select(columns + more).rows()
    assert priced.sort("run_id").select(columns).rows() == expected.select(columns).rows()
    assert set(priced["n_gpus"].cast(pl.Float64)) == {16.0}
    alone = priced.filter(pl.col("class") == "infrastructure").select("run_id").sort("run_id")
    assert of_infrastructure.select("run_id").sort("run_id").rows() == alone.rows()


def logged_lines(job: str, restart_count: int, begun: float, steps: range, first: float) -> list[dict[str, Any]]:
    """A process that logs from `begun` on, and steps of 10 s from `first` on."""
    run = {"type": "run", "v": 1, "t": begun, "run_id": "llama", "cluster": "c1", "scheduler": "slurm", "job_id": job}
    step = {"type": "step", "duration_s": 10.0, "tokens": 1e6}
    return [
        run | {"restart_count": restart_count, "rank": 0, "world": 8, "n_gpus": 8},
        *(step | {"step": number, "t": first + 10 * place} for place, number in enumerate(steps)),
    ]


def a_failure_and_a_second_attempt(*, until: int) -> str:
    """Accounting of a job whose node fails after 3000 s, and that starts again 100 s later."""
    times = f"{START}|{START}|{START}|{START + 3000}", f"{START + 3000}|{START + 3000}|{START + 3100}|{START + until}"
    return HEADER + "".join(
        f"7|7|c1|gpu|a|u|{when}|{state}|0:0|1|gres/gpu=8,node=1|n1|train\n"
        for when, state in zip(times, ("NODE_FAIL", "COMPLETED"), strict=True)
    )


@pytest.mark.slow
def test_restart_in_place_is_not_part_of_the_interruption_cost(tmp_path: Path) -> None:
    """A worker crashes at 500 s and goes back 40 steps; the node fails at 3000 s, and the next attempt goes back 10."""
    sacct = a_failure_and_a_second_attempt(until=4000)
    lines = [
        *logged_lines("7", 0, START, range(50), START),
        *logged_lines("7", 0, START + 520, range(10, 250), START + 530),
        *logged_lines("7", 1, START + 3110, range(240, 320), START + 3130),
    ]
    log = "".join(json.dumps(line) + "\n" for line in lines)
    root = load(tmp_path, {"sacct.txt": sacct}, {"run.jsonl": log})
    with open_reader(root) as reader:
        ledger = reader.table("gpu_time").filter(pl.col("cause") == "restart_in_place")
        (cost,) = interruption_costs(reader, whole(root))["cost_gpu_s"]
    by_category = dict(ledger.group_by("category").agg(pl.col("gpu_seconds").sum().cast(pl.Float64)).rows())
    assert by_category == {"lost": 8 * 410, "stalled": 8 * 10}
    # 100 s were run again by the next attempt, 10 s unfinished, 60 s spent waiting; then 30 s to the next first step.
    assert cost == 8 * (100 + 10 + 60 + 30)


@pytest.mark.slow
def test_later_restart_in_place_adds_no_cost_to_the_interruption(tmp_path: Path) -> None:
    """The node fails at 3000 s; the next attempt goes back 10 steps, and hours later its worker crashes."""
    sacct = a_failure_and_a_second_attempt(until=9000)
    lines = [
        *logged_lines("7", 0, START, range(299), START),
        *logged_lines("7", 1, START + 3110, range(289, 689), START + 3130),
        *logged_lines("7", 1, START + 7150, range(680, 800), START + 7400),
    ]
    root = load(tmp_path, {"sacct.txt": sacct}, {"run.jsonl": "".join(json.dumps(line) + "\n" for line in lines)})
    with open_reader(root) as reader:
        (cost,) = interruption_costs(reader, whole(root))["cost_gpu_s"]
    # 100 s were run again, 10 s unfinished; then 30 s to the next first step. The 250 s before the last are not its.
    assert cost == 8 * (100 + 10 + 30)


@pytest.mark.slow
def test_cost_before_a_next_attempt_without_a_log_is_null(tmp_path: Path) -> None:
    """The first attempt's log has all its steps; how many of them the second one went back, nobody tells."""
    sacct = a_failure_and_a_second_attempt(until=4000)
    log = "".join(json.dumps(line) + "\n" for line in logged_lines("7", 0, START, range(298), START))
    root = load(tmp_path, {"sacct.txt": sacct}, {"run.jsonl": log})
    with open_reader(root) as reader:
        assert interruption_costs(reader, whole(root))["cost_gpu_s"].to_list() == [None]


@pytest.mark.slow
def test_an_end_at_a_window_s_end_is_of_that_window(tmp_path: Path) -> None:
    """The attempt ran in the window before: every count has its failure there, and none has it in the window after."""
    root = load(tmp_path, {"sacct.txt": a_failure_and_a_second_attempt(until=4000)})
    window = whole(root)
    failed = window.since + timedelta(seconds=3000)
    with open_reader(root) as reader:
        counted = [
            (
                interruption_costs(reader, each).height,
                reader.query("interruptions", **each.parameters).height,
                reader.query("restarts", **each.parameters).height,
                sum(reader.query("interruption_counts", **each.parameters)["n"]),
                sum(failure_rate_rows(reader, each).filter(size="pooled", counted="attempts")["n_failures"]),
            )
            for each in (replace(window, until=failed), replace(window, since=failed))
        ]
    assert counted == [(1, 1, 1, 1, 2), (0, 0, 0, 0, 0)]


@pytest.mark.slow
def test_a_failure_that_ends_the_data_is_counted(tmp_path: Path) -> None:
    failed = a_failure_and_a_second_attempt(until=4000).replace("COMPLETED", "NODE_FAIL")
    assert len(shown(load(tmp_path, {"sacct.txt": failed}), "interruptions")) == 2
