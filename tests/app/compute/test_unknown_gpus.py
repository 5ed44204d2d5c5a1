"""Accounting that records no GPUs: unknown, not 0, from Slurm's texts to bounds; and what else tells them."""

from __future__ import annotations

import functools
import itertools
import random
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.api import QUESTIONS
from app.compute import pipeline as computing
from app.config.settings import Config
from app.results.goodput import goodput_rows, lost_imputed_rows
from app.results.nodes.unknown_gpus import unknown_gpus_notes
from app.show.answer import Question
from app.window import Window
from ingest.slurm import load_files as ingesting
from ingest.slurm import stream as streaming
from ingest.slurm.accounting.sacct import accounting_blocks
from ingest.store.report import first_error
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

HEADER = (
    "JobIDRaw|JobID|Cluster|Partition|Account|User|Submit|Eligible|Start|End|ElapsedRaw|State|ExitCode|NNodes|NCPUS|"
    "ReqTRES|AllocTRES|NodeList|JobName|SubmitLine"
)
START = 1_790_812_800  # 2026-10-01T00:00:00Z
NOW = datetime(2026, 11, 2, tzinfo=UTC)
EVENTS = f"Cluster|NodeName|TimeStart|TimeEnd|State|StateRaw|Reason|User\nc||{START}|Unknown||0|Cluster Registered|\n"
HOUR = 60


def job(
    number: int,
    nodes: str,
    begin: int,
    end: int,
    gpus: int | None = None,
    *,
    n_nodes: int = 1,
    state: str = "COMPLETED",
    line: str = "sbatch job.sh",
) -> str:
    """A job of whole minutes after the start; `gpus` None: its TRES name none."""
    tres = f"cpu=4,node={n_nodes}" + (f",gres/gpu={gpus}" if gpus is not None else "")
    times = [START + 60 * begin, START + 60 * begin, START + 60 * begin, START + 60 * end, 60 * (end - begin)]
    cells = [number, number, "c", "main", "lab", "alice", *times, state, "0:0", n_nodes, 4, tres, tres, nodes,
             f"train{number}", line]  # fmt: skip
    return "|".join(map(str, cells))


def inventory(**gpus: int) -> str:
    return "".join(
        f"NodeName={name} Arch=x86_64 CPUTot=64 {f'Gres=gpu:h100:{count}' if count else ''} RealMemory=512000 "
        f"State=IDLE Partitions=main BootTime={START} SlurmdStartTime={START} LastBusyTime={START} "
        f"CfgTRES=cpu=64,mem=500G,billing=64\n"
        for name, count in gpus.items()
    )


def texts(jobs: Sequence[str], nodes: str) -> dict[str, str]:
    return {"sacct.txt": "\n".join([HEADER, *jobs]) + "\n", "nodes.txt": nodes, "events.txt": EVENTS}


class Loaded:
    """What attempts held by some texts, loaded one after the other: no computation changes it."""

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        with open_writer(folder / "warehouse", verb="test", now=NOW) as writer:
            for name, text in files.items():
                (folder / name).write_text(text)
                self._load(writer, str(folder / name))
            self.attempts = writer.table("attempts").sort("job_id")

    @staticmethod
    def _load(writer: object, name: str) -> None:
        options = ingesting.Options(cluster="c", until=datetime.fromtimestamp(START + 86_400, UTC))
        reports = ingesting.ingest_files(
            writer,  # type: ignore[arg-type]  # the writer that is open
            Config(),
            [name],
            options,
            now=NOW,
            progress=lambda *_: None,
        )
        assert first_error(reports) is None

    def gpus(self) -> dict[str, tuple[float | None, str]]:
        rows = self.attempts.select("job_id", "n_gpus", "gpus_from").rows()
        return {name: (None if gpus is None else float(gpus), reported) for name, gpus, reported in rows}


class Computed(Loaded):
    """What became of them, and the answers to these questions."""

    def __init__(self, folder: Path, files: Mapping[str, str], *, questions: Iterable[str] = ()) -> None:
        super().__init__(folder, files)
        with open_writer(folder / "warehouse", verb="test", now=NOW) as writer:
            self.warnings = {each.check.name for each in computing.compute(writer, Config(), now=NOW).warnings}
        with open_reader(folder / "warehouse") as reader:
            self.ledger = reader.table("gpu_time")
            self.capacity = reader.table("capacity")["gpu_seconds"].sum()
            computed = reader.query("computed", cluster="c").row(0, named=True)
            self.window = Window("c", computed["since"], computed["until"])
            result = goodput_rows(reader, self.window)
            self.metrics = {row["metric"]: row for row in result.iter_rows(named=True)}
            imputed = lost_imputed_rows(reader, self.window).row(0, named=True)
            self.imputed = (imputed["value"], imputed["bound_low"])
            self.notes = unknown_gpus_notes(reader, self.window)
            self.answers = {name: QUESTIONS[name](reader, self.window, Question()) for name in questions}

    def bounds(self, metric: str) -> tuple[float | None, object, object]:
        row = self.metrics[metric]
        return row["value"], pytest.approx(row["bound_low"]), pytest.approx(row["bound_high"])


@pytest.mark.slow
def test_unknown_gpus_give_bounds_no_value_and_a_remedy(tmp_path: Path) -> None:
    """The remedy is what to switch on so that GPUs are recorded."""
    result = Computed(tmp_path, texts([job(1, "n1", 0, 12 * HOUR)], inventory(n1=8, n2=8)), questions=QUESTIONS)
    assert result.gpus() == {"1": (None, "unknown")}
    assert result.ledger["gpu_seconds"].sum() == result.capacity
    assert result.bounds("occupancy") == (None, 0.0, 0.25)
    assert result.bounds("goodput_capacity") == (None, 0.0, 0.25)
    assert result.bounds("goodput_allocated") == (None, 0.0, 1.0)
    assert result.metrics["availability"]["value"] == 1.0
    assert "AccountingStorageTRES" in result.metrics["occupancy"]["note"]
    assert "source_without_gpus" in result.warnings
    assert result.notes[0].startswith("1 of 1 attempt held an unknown number of GPUs")


@pytest.mark.slow
def test_gpus_without_an_owner_count_once(tmp_path: Path) -> None:
    """What several unknown jobs and a known one leave is counted once, and belongs to no job."""
    jobs = [
        job(1, "n1", 0, 24 * HOUR, 4),
        job(2, "n1", -3 * 24 * HOUR, 6 * HOUR),
        job(3, "n1", -3 * 24 * HOUR, 12 * HOUR),
    ]
    result = Computed(tmp_path, texts(jobs, inventory(n1=8)), questions=QUESTIONS)
    unknown = result.ledger.filter(pl.col("cause") == "gpus_unknown")
    assert result.gpus() == {"1": (4, "accounting"), "2": (None, "unknown"), "3": (None, "unknown")}
    assert (
        unknown.filter(pl.col("started_at") >= datetime.fromtimestamp(START, UTC))["gpu_seconds"].sum() == 4 * 12 * 3600
    )
    assert unknown["job_id"].null_count() == unknown.height
    assert result.ledger["gpu_seconds"].sum() == result.capacity


@pytest.mark.slow
def test_cpu_job_on_a_gpu_node_holds_none_if_gpus_are_recorded(tmp_path: Path) -> None:
    result = Computed(tmp_path, texts([job(1, "n1", 0, 60), job(2, "n1", 10, 90, 8)], inventory(n1=8)))
    assert result.gpus() == {"1": (0, "accounting"), "2": (8, "accounting")}
    assert result.metrics["occupancy"]["value"] is not None
    assert result.notes == ()


@pytest.mark.slow
def test_a_row_without_tres_held_an_unknown_number_of_gpus(tmp_path: Path) -> None:
    """Whatever other rows record; a job without a node held none."""
    bare, never = job(2, "n2", 0, 60), job(3, "None assigned", 0, 60, state="CANCELLED")
    jobs = [job(1, "n1", 0, 60, 8), *(text.replace("cpu=4,node=1", "") for text in (bare, never))]
    result = Loaded(tmp_path, texts(jobs, inventory(n1=8, n2=8)))
    assert result.gpus() == {"1": (8, "accounting"), "2": (None, "unknown"), "3": (0, "accounting")}
    (tmp_path / "b").mkdir()
    assert Loaded(tmp_path / "b", texts(jobs, inventory(n1=8, n2=0))).gpus()["2"] == (0, "nodes without GPUs")


@pytest.mark.slow
def test_shards_are_an_unknown_number_of_gpus(tmp_path: Path) -> None:
    # by gres.conf 4 of 32 shards may be one GPU of eight, which no table of accounting records
    shards = [job(2, "n2", 0, 60), job(3, "n2", 70, 90, 0)]
    jobs = [job(1, "n1", 0, 60, 8), *(text.replace("node=1", "node=1,gres/shard=4") for text in shards)]
    result = Loaded(tmp_path, texts(jobs, inventory(n1=8, n2=8)))
    assert result.gpus() == {"1": (8, "accounting"), "2": (None, "unknown"), "3": (None, "unknown")}
    assert result.attempts["req_gpus"].to_list() == [8, None, 0]


@pytest.mark.slow
def test_jobs_from_before_the_site_switched_it_on_stay_unknown(tmp_path: Path) -> None:
    jobs = [job(1, "n1", -5 * 24 * HOUR, -4 * 24 * HOUR), job(2, "n1", 10, 90, 8)]
    assert Loaded(tmp_path, texts(jobs, inventory(n1=8))).gpus()["1"] == (None, "unknown")


@pytest.mark.slow
def test_gpu_request_absent_from_the_tres_means_gpus_unrecorded(tmp_path: Path) -> None:
    jobs = [job(1, "n1", 0, 60, line="sbatch --gres=gpu:4 job.sh"), job(2, "n1", 0, 60), job(3, "n1", 120, 180, 8)]
    result = Loaded(tmp_path, texts(jobs, inventory(n1=8)))
    assert result.gpus() == {"1": (4, "request"), "2": (None, "unknown"), "3": (8, "accounting")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "gpus", "reported"),
    [
        ("sbatch -N2 --gpus-per-node=4 job.sh", 8, "request"),
        ("sbatch --gpus=h100:6 job.sh", 6, "request"),
        ("sbatch --exclusive job.sh", 16, "exclusive nodes"),
        ("sbatch --exclusive=user job.sh", None, "unknown"),
        ("sbatch job.sh --gpus=6", None, "unknown"),
    ],
)
def test_submit_line_gives_gpus(tmp_path: Path, line: str, gpus: float | None, reported: str) -> None:
    result = Loaded(tmp_path, texts([job(1, "n[1-2]", 0, 60, n_nodes=2, line=line)], inventory(n1=8, n2=8)))
    assert result.gpus() == {"1": (gpus, reported)}


@pytest.mark.slow
def test_jobs_on_nodes_without_gpus_held_none(tmp_path: Path) -> None:
    result = Loaded(tmp_path, texts([job(1, "n1", 0, 60), job(2, "n2", 0, 60)], inventory(n1=0, n2=8)))
    assert result.gpus() == {"1": (0, "nodes without GPUs"), "2": (None, "unknown")}


@pytest.mark.slow
def test_the_order_of_loads_makes_no_difference(tmp_path: Path) -> None:
    first = "\n".join([HEADER, job(1, "n1", 0, 60), job(2, "n2", 0, 60)]) + "\n"
    later = "\n".join([HEADER, job(3, "n1", 90, 120, 8)]) + "\n"
    files = {"first.txt": first, "later.txt": later, "nodes.txt": inventory(n1=8, n2=8)}
    orders, result, occupancy = list(itertools.permutations(files)), [], set()
    done: Loaded
    for number, order in enumerate(orders):
        folder = tmp_path / str(number)
        folder.mkdir()
        ordered = {name: files[name] for name in order}
        if order in {orders[0], orders[-1]}:
            done = computed = Computed(folder, ordered)
            occupancy.add(computed.metrics["occupancy"]["value"])
        else:
            done = Loaded(folder, ordered)
        result.append(done.gpus())
    assert result == [result[0]] * 6
    assert len(occupancy) == 1
    assert result[0]["1"] == (0, "accounting")


@pytest.mark.slow
def test_every_answer_reports_what_is_not_in_it(tmp_path: Path) -> None:
    jobs = [job(n, "n1", 60 * n, 60 * n + 30, state="NODE_FAIL") for n in range(3)]
    result = Computed(tmp_path, texts(jobs, inventory(n1=8)), questions=QUESTIONS)
    rates = result.answers["mttf"].rows
    assert rates.filter(pl.col("exposure_gpu_days") > 0).is_empty()
    assert rates.filter(pl.col("n_failures") > 0).is_empty()
    assert result.answers["runs"].rows["n_gpus"].null_count() == 3
    assert result.answers["interruptions"].rows["n_gpus"].null_count() == 3
    assert sum(result.answers["nodes"].rows["allocated_gpu_hours"]) == 0
    assert result.answers["nodes"].rows["unknown_gpu_hours"].sum() == pytest.approx(12)
    assert result.answers["waste"].rows.is_empty()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpus", "value", "least", "output"),
    [
        (None, None, 7200.0, "1 infrastructure interruption cost at least 2 GPU-h"),
        (8, 21600.0, None, "2 infrastructure interruptions cost 6 GPU-h"),
    ],
    ids=["unknown", "known"],
)
def test_imputed_interruption_cost_is_null_with_unknown_gpus(
    tmp_path: Path, gpus: int | None, value: float | None, least: float | None, output: str
) -> None:
    jobs = [
        job(1, "n1", -4 * 24 * HOUR, -4 * 24 * HOUR + 60, gpus, state="NODE_FAIL"),
        job(2, "n1", 60, 120, 4, state="NODE_FAIL"),
    ]
    result = Computed(tmp_path, texts(jobs, inventory(n1=8)), questions=["lost"])
    assert result.imputed == (value, least)
    assert output in result.answers["lost"].notes[0]


def stripped(text: str) -> str:
    return re.sub(r",gres/gpu=\d+", "", text)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_bounds_without_recorded_gpus_contain_the_true_ones(tmp_path: Path, seed: int) -> None:
    """They are no narrower than those with recorded GPUs."""
    jobs = [
        job(n, f"n{1 + (n * 7 + seed) % 3}", begin, begin + 45 + 31 * ((n + seed) % 5), (n * 3 + seed) % 4 + 1)
        for n in range(12)
        if (begin := 97 * ((n * 5 + seed) % 11)) >= 0
    ]
    for name in ("whole", "without"):
        (tmp_path / name).mkdir()
    nodes = inventory(n1=8, n2=8, n3=4)
    whole = Computed(tmp_path / "whole", texts(jobs, nodes))
    without = Computed(tmp_path / "without", texts([stripped(each) for each in jobs], nodes), questions=QUESTIONS)
    assert without.ledger["gpu_seconds"].sum() == whole.ledger["gpu_seconds"].sum() == without.capacity
    for metric, true in whole.metrics.items():
        wide = without.metrics[metric]
        assert wide["bound_low"] <= true["bound_low"] + 1e-12, metric
        assert wide["bound_high"] >= true["bound_high"] - 1e-12, metric
        if metric in {"occupancy", "goodput_capacity"}:
            assert wide["value"] is None
            assert wide["bound_low"] <= true["numerator"] / true["denominator"] <= wide["bound_high"]


@pytest.mark.slow
def test_what_an_older_version_stored_as_0_becomes_unknown(tmp_path: Path) -> None:
    result = Loaded(tmp_path, texts([job(1, "n1", 0, 60, 0)], inventory(n1=8)))
    assert result.attempts["n_gpus"].to_list() == [Decimal(0)]  # recorded: gres/gpu=0


def step(number: int, begin: int, gpus: int) -> str:
    """A step of ten minutes of a job; its Submit is its own Start."""
    cells = job(number, "n1", begin, begin + 10, gpus).split("|")
    return "|".join([f"{number}.0", f"{number}.0", *cells[2:]])


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "block"), [(None, None), (None, 1_000), (1, 1_000), (2, 1_000)])
def test_steps_give_gpus_in_any_row_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int | None, block: int | None
) -> None:
    """Each job has two attempts, half an hour apart, whose steps held one GPU more in the second."""
    rows, gpus = [], {n: n % 7 + 1 for n in range(10, 40)}
    for n, held in gpus.items():
        first, second = 15 * n, 15 * n + 30
        rows += [job(n, "n1", first, first + 12, state="REQUEUED"), step(n, first, held), step(n, first + 5, 1)]
        rows += [job(n, "n1", second, second + 12), step(n, second + 1, held + 1)]
    if seed is not None:
        random.Random(seed).shuffle(rows)
    if block is not None:
        monkeypatch.setattr(streaming, "accounting_blocks", functools.partial(accounting_blocks, block=block))
        monkeypatch.setattr("ingest.files.input.CHUNK", block)
        monkeypatch.setattr("ingest.files.input.HEAD", block)
    files = texts(rows, inventory(n1=8))
    # Without free text at the end every line is whole beyond doubt, so that blocks end there.
    files["sacct.txt"] = re.sub(r"\|[^|\n]*\|[^|\n]*\n", "\n", files["sacct.txt"])
    result = Loaded(tmp_path, files)
    attempts = result.attempts.sort("job_id", "submitted_at")
    assert attempts["n_gpus"].to_list() == [each for held in gpus.values() for each in (held, held + 1)]
    assert set(attempts["gpus_from"]) == {"steps"}


SHOWN = f"""JobId=1 JobName=a JobId=9 GRES=gpu:h100:99 UserId=x
   UserId=alice(1) GroupId=alice(1) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   SubmitTime={START} EligibleTime={START} StartTime={START}
   NodeList=n[1-2] BatchHost=n1 NumNodes=2 NumCPUs=8 NumTasks=2
   JOB_GRES=gpu:h100:12
     Nodes=n1 CPU_IDs=0-3 Mem=0 GRES=gpu:h100:8(IDX:0-7)
     Nodes=n2 CPU_IDs=0-3 Mem=0 GRES=gpu:h100:4(IDX:0-3)
   OverSubscribe=OK Contiguous=0 Licenses=(null)
   Command=/x GRES=gpu:7

JobId=2 JobName=cpu
   UserId=alice(1) GroupId=alice(1) JobState=RUNNING
   SubmitTime={START} NumNodes=1 NumTasks=1
     Nodes=n1 CPU_IDs=4 Mem=0 GRES=
   OverSubscribe=OK Command=/y

JobId=3 JobName=whole
   UserId=alice(1) SubmitTime={START} NumNodes=1 OverSubscribe=NO Command=/z

JobId=4 JobName=requested
   UserId=alice(1) SubmitTime={START} NumNodes=2 OverSubscribe=OK TresPerNode=gres/gpu:2 Command=/z
"""
JSON = (
    '{"meta":{"plugins":{"data_parser":"data_parser/v0.0.41"}},"errors":[],"jobs":['
    f'{{"job_id":1,"job_state":["RUNNING"],"submit_time":{{"set":true,"infinite":false,"number":{START}}},'
    '"gres_detail":["gpu:h100:8(IDX:0-7)","gpu:h100:4(IDX:0-3)"],"shared":[]},'
    f'{{"job_id":3,"job_state":["RUNNING"],"submit_time":{{"set":true,"infinite":false,"number":{START}}},"shared":["none"]}},'
    f'{{"job_id":4,"job_state":["RUNNING"],"submit_time":{{"set":true,"infinite":false,"number":{START}}},'
    '"tres_per_node":"gres:gpu:2","node_count":{"set":true,"infinite":false,"number":2}}]}'
)


@pytest.mark.slow
@pytest.mark.parametrize("shown", [SHOWN, SHOWN.replace("\n   ", " "), JSON], ids=["text", "one line", "json"])
@pytest.mark.parametrize("first", [True, False], ids=["before accounting", "after it"])
def test_jobs_shown_by_slurmctld_give_gpus(tmp_path: Path, shown: str, first: bool) -> None:
    jobs = [job(n, "n[1-2]" if n in {1, 4} else "n1", 0, 60, n_nodes=2 if n in {1, 4} else 1) for n in (1, 2, 3, 4, 5)]
    files = texts(jobs, inventory(n1=8, n2=8))
    files = {"jobs.txt": shown, **files} if first else {**files, "jobs.txt": shown}
    result = Loaded(tmp_path, files).gpus()
    assert result.pop("2") == ((None, "unknown") if shown is JSON else (0, "slurmctld"))
    assert result == {
        "1": (12, "slurmctld"), "3": (8, "exclusive nodes"), "4": (4, "request"), "5": (None, "unknown"),
    }  # fmt: skip
