"""From files to evidence: a run log and telemetry turn unattributed time into what it was; a bad log does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from queries.warehouse import open_reader
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

START = 1_790_000_000  # 2026-09-21T14:13:20Z
HOUR = 3600
SACCT = f"""\
JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|NNodes|AllocTRES|NodeList
7|7|c|alice|lab|main|train|COMPLETED|0:0|{START}|{START}|{START}|{START + HOUR}|1|cpu=64,gres/gpu=8,node=1|n1
8|8|c|bob|lab|main|train|COMPLETED|0:0|{START}|{START}|{START}|{START + HOUR}|1|cpu=64,gres/gpu=8,node=1|n2
"""
MODEL = {"gpu_model": "NVIDIA H100 80GB HBM3", "dtype": "bf16", "n_gpus": 8, "params_active": 1e9, "layers": 10,
         "heads": 10, "head_dim": 100, "seq_len": 1000}  # fmt: skip


def log(*, shift: float = 0.0) -> str:
    """120 s to start, 300 steps of 10 s, the rest to end; its clock off by `shift` seconds."""
    begin = START + shift
    lines: list[dict[str, Any]] = [
        {"type": "run", "v": 1, "t": begin + 60, "run_id": "llama", "cluster": "c", "scheduler": "slurm", "job_id": "7",
         "restart_count": 0, "rank": 0, "world": 8, **MODEL},
    ]  # fmt: skip
    step = {"type": "step", "duration_s": 10.0, "tokens": 1e6}
    lines += [step | {"step": n, "t": begin + 120 + 10 * n} for n in range(300)]
    return "".join(json.dumps(line) + "\n" for line in lines)


def spent(root: Path, job: str) -> dict[tuple[str, str], float]:
    """GPU-seconds of a job by category and evidence."""
    with open_reader(root) as reader:
        own = reader.table("gpu_time").filter(pl.col("job_id") == job)
    result = own.group_by("category", "evidence").agg(pl.col("gpu_seconds").sum().cast(pl.Float64))
    return {(category, evidence): amount for category, evidence, amount in result.rows()}


def loaded(folder: Path) -> Path:
    """A warehouse of the two jobs."""
    (folder / "sacct.txt").write_text(SACCT)
    done = trackside("ingest", "slurm", str(folder / "sacct.txt"), "--warehouse", str(folder / "w"))
    assert done.returncode == 0, done.stderr
    return folder / "w"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return loaded(tmp_path)


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse with the log of job 7, computed: to be read only."""
    root = loaded(tmp_path_factory.mktemp("logged"))
    ingest(root, log())
    return root


def ingest(root: Path, text: str) -> str:
    (root.parent / "run.jsonl").write_text(text)
    done = trackside("ingest", "runlog", str(root.parent / "run.jsonl"), "--warehouse", str(root))
    assert done.returncode == 0, done.stderr
    computed = trackside("compute", "--warehouse", str(root))
    assert computed.returncode == 0, computed.stderr
    return done.stderr + computed.stderr


def test_log_is_evidence_for_its_job_and_no_other(logged: Path) -> None:
    assert spent(logged, "7") == {
        ("startup", "log"): 8 * 120, ("productive", "log"): 8 * 3000, ("teardown", "log"): 8 * 480,
    }  # fmt: skip
    assert spent(logged, "8") == {("unattributed", "accounting"): 8 * HOUR}


@pytest.mark.slow
def test_data_wait_is_not_productive_time_of_known_mfu(root: Path) -> None:
    """Job 7 waits for data in 4 s of each step of 10 s; job 8 trains as long, and logs no tokens."""
    lines = [json.loads(line) for line in log().splitlines()]
    begins = [line["t"] for line in lines[1:]]
    waits = [{"type": "event", "kind": "data", "begin": begin + 6, "end": begin + 10} for begin in begins]
    silent = [line | {"job_id": "8", "run_id": "other"} for line in lines[:1]]
    silent += [{name: each for name, each in line.items() if name != "tokens"} for line in lines[1:]]
    (root.parent / "other.jsonl").write_text("".join(json.dumps(line) + "\n" for line in silent))
    done = trackside("ingest", "runlog", str(root.parent / "other.jsonl"), "--warehouse", str(root))
    assert done.returncode == 0, done.stderr
    steps = [line | {"duration_s": 6.0} for line in lines[1:]]
    ingest(root, "".join(json.dumps(line) + "\n" for line in [lines[0], *steps, *waits]))
    assert spent(root, "7")["productive", "log"] == 8 * 6 * 300
    with open_reader(root) as reader:
        rows = reader.table("cluster_metrics").filter(pl.col("metric") == "program_goodput").to_dicts()
    assert rows[0]["evidence_log"] == pytest.approx(6 * 300 / (6 * 300 + 10 * 300))


def test_mfu_is_the_models_flop_over_the_dense_peak(logged: Path) -> None:
    rows = json.loads(trackside("show", "mfu", "--format", "json", "--warehouse", str(logged)).stdout)
    by_convention = {row["convention"]: row["value"] for row in rows}
    peak = 8 * 989e12 * 3000
    assert by_convention["6N_only"] == pytest.approx(6e9 * 300e6 / peak)
    assert by_convention["palm_full"] == pytest.approx((6e9 + 12 * 10 * 10 * 100 * 1000) * 300e6 / peak)


@pytest.mark.slow
def test_log_with_a_wrong_clock_is_kept_with_lower_evidence(root: Path) -> None:
    """The log is loaded and its wrong clock reported; its job's time stays unattributed."""
    output = ingest(root, log(shift=2 * HOUR))
    assert "wrong clock" in output
    assert spent(root, "7") == {("unattributed", "accounting"): 8 * HOUR}
    with open_reader(root) as reader:
        assert reader.table("steps").height == 300


@pytest.mark.slow
def test_a_log_cut_by_a_kill_gives_what_it_has(root: Path) -> None:
    output = ingest(root, log()[:-20])
    assert "rejected" in output
    assert spent(root, "7")["productive", "log"] == 8 * 2990


@pytest.mark.slow
def test_telemetry_is_evidence_without_a_log(root: Path, tmp_path: Path) -> None:
    lines = []
    for gpu in range(8):
        for second in range(0, HOUR + 1, 15):
            activity = 0.4 if second >= 300 and gpu < 6 else 0.0
            labels = f'gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="n2"'
            lines.append(f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{labels}}} {activity} {START + second}\n")
    text = "# TYPE DCGM_FI_PROF_PIPE_TENSOR_ACTIVE gauge\n" + "".join(lines) + "# EOF\n"
    (tmp_path / "dcgm.om").write_text(text)
    done = trackside("ingest", "prometheus", str(tmp_path / "dcgm.om"), "--cluster", "c", "--warehouse", str(root))
    assert done.returncode == 0, done.stderr
    assert trackside("compute", "--warehouse", str(root)).returncode == 0
    result = spent(root, "8")
    minute = 8 * 60  # samples are averages over the minutes of the clock, which the job's start cuts
    assert result["productive", "telemetry"] == pytest.approx(6 * 3300, abs=2 * minute)
    assert result["startup", "telemetry"] == pytest.approx(6 * 300, abs=2 * minute)
    assert result["stalled", "telemetry"] == pytest.approx(2 * HOUR, abs=2 * minute)
    assert sum(result.values()) == 8 * HOUR
    assert spent(root, "7") == {("unattributed", "accounting"): 8 * HOUR}


@pytest.mark.slow
def test_one_idle_gpu_widens_the_bounds_and_refutes_no_claim(tmp_path: Path) -> None:
    """Eight GPUs busy for an hour, then seven of them: 15 of 16 GPU-hours were active, whatever lockstep says."""
    header, own, _ = SACCT.splitlines(keepends=True)
    root = tmp_path / "w"
    (tmp_path / "sacct.txt").write_text(header + own.replace(f"|{START + HOUR}|", f"|{START + 2 * HOUR}|"))
    lines = []
    for gpu in range(8):
        for second in range(0, 2 * HOUR + 1, 30):
            activity = 0.0 if gpu == 3 and second > HOUR else 0.97
            labels = f'gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"'
            lines.append(f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{labels}}} {activity} {START + second}\n")
    (tmp_path / "dcgm.om").write_text("# TYPE DCGM_FI_PROF_PIPE_TENSOR_ACTIVE gauge\n" + "".join(lines) + "# EOF\n")
    claims = [f'[[claim]]\nid = "{metric}"\nmetric = "{metric}"\nquoted = "q"\nread_as = "r"\nkind = "delivered"\n'
              'target = 0.9\ndirection = "at_least"\n'
              for metric in ("goodput_allocated", "ettr")]  # fmt: skip
    (tmp_path / "claims.toml").write_text("".join(claims))
    for arguments in (
        ("ingest", "slurm", str(tmp_path / "sacct.txt")),
        ("ingest", "prometheus", str(tmp_path / "dcgm.om"), "--cluster", "c"),
        ("compute",),
    ):
        done = trackside(*arguments, "--warehouse", str(root))
        assert done.returncode == 0, done.stderr
    with open_reader(root) as reader:
        causes = (
            reader.table("gpu_time").group_by("category", "cause").agg(pl.col("gpu_seconds").sum().cast(pl.Float64))
        )
    result = {(category, cause): amount for category, cause, amount in causes.rows()}
    minute = 8 * 60
    assert result["stalled", "lockstep"] == pytest.approx(7 * HOUR, abs=2 * minute)
    assert result["stalled", "inactive"] == pytest.approx(HOUR, abs=2 * minute)
    assert {category for category, _ in result} <= {"productive", "stalled", "unattributed"}
    for what, metric in (("goodput", "goodput_allocated"), ("ettr", "ettr")):
        rows = json.loads(trackside("show", what, "--format", "json", "--warehouse", str(root)).stdout)
        row = next(row for row in rows if row["metric"] == metric)
        assert row["bound_high"] == pytest.approx(15 / 16, abs=0.01)
        assert row["value"] == pytest.approx(0.5, abs=0.02)
    done = trackside("verify", "--claims", str(tmp_path / "claims.toml"), "--format", "json", "--warehouse", str(root))
    verdicts = {row["claim"]: row["verdict"] for row in json.loads(done.stdout)}
    assert verdicts == {"goodput_allocated": "undetermined", "ettr": "undetermined"}


@pytest.mark.slow
def test_log_read_before_its_job_ended_claims_none_of_the_rest(root: Path, tmp_path: Path) -> None:
    running = SACCT.replace(
        f"|COMPLETED|0:0|{START}|{START}|{START}|{START + HOUR}|", f"|RUNNING|0:0|{START}|{START}|{START}|Unknown|"
    )
    (tmp_path / "now.txt").write_text(running)
    done = trackside("ingest", "slurm", str(tmp_path / "now.txt"), "--warehouse", str(tmp_path / "v"),
                     "--until", "2026-09-21T15:13:20Z")  # fmt: skip
    assert done.returncode == 0, done.stderr
    ingest(tmp_path / "v", log())
    assert spent(tmp_path / "v", "7") == {
        ("startup", "log"): 8 * 120, ("productive", "log"): 8 * 3000, ("unattributed", "accounting"): 8 * 480,
    }  # fmt: skip


@pytest.mark.slow
def test_run_is_selected_by_job_id_and_an_unknown_id_is_refused(logged: Path) -> None:
    for what in ("ettr", "mfu", "runs"):
        rows = json.loads(trackside("show", what, "--run", "7", "--format", "json", "--warehouse", str(logged)).stdout)
        assert {row["run_id"] for row in rows} == {"llama"}
        done = trackside("show", what, "--run", "nope", "--warehouse", str(logged))
        assert done.returncode == 2
        assert "no run and no job is called 'nope'" in done.stderr


@pytest.mark.slow
def test_interruption_cost_is_lost_stalled_and_next_startup_time(root: Path, tmp_path: Path) -> None:
    first, own, other = SACCT.splitlines(keepends=True)
    killed = first + own.replace("COMPLETED", "NODE_FAIL") + other
    again = (
        f"7|7|c|alice|lab|main|train|COMPLETED|0:0|{START + HOUR}|{START + HOUR}|{START + HOUR}|{START + 2 * HOUR}|1|"
        "cpu=64,gres/gpu=8,node=1|n1\n"
    )
    (tmp_path / "again.txt").write_text(killed + again)
    place = tmp_path / "v"
    done = trackside("ingest", "slurm", str(tmp_path / "again.txt"), "--warehouse", str(place))
    assert done.returncode == 0, done.stderr
    second = log(shift=HOUR).replace('"restart_count": 0', '"restart_count": 1')
    (tmp_path / "run.jsonl").write_text(log() + second)
    assert trackside("ingest", "runlog", str(tmp_path / "run.jsonl"), "--warehouse", str(place)).returncode == 0
    assert trackside("compute", "--warehouse", str(place)).returncode == 0
    rows = json.loads(trackside("show", "interruptions", "--format", "json", "--warehouse", str(place)).stdout)
    # All 300 steps were run again, one was cut short, the rest of the hour was waiting for the dead node; then 120 s.
    assert [(row["node"], row["cost_gpu_s"]) for row in rows] == [("n1", 8 * (HOUR - 120) + 8 * 120)]
    nodes = json.loads(trackside("show", "nodes", "--format", "json", "--warehouse", str(place)).stdout)
    assert nodes[0]["node"] == "n1"
    assert nodes[0]["cost_gpu_s"] == 8 * HOUR


@pytest.mark.slow
def test_a_claim_on_a_ratio_takes_shares_not_per_cent(root: Path, tmp_path: Path) -> None:
    assert trackside("compute", "--warehouse", str(root)).returncode == 0
    (tmp_path / "claims.toml").write_text(
        '[[claim]]\nid = "a"\nmetric = "availability"\nquoted = "q"\nread_as = "r"\nkind = "delivered"\ntarget = 99\n'
        'direction = "atleast"\n'
    )
    done = trackside("verify", "--claims", str(tmp_path / "claims.toml"), "--warehouse", str(root))
    assert done.returncode == 11
    assert "has 2 mistakes" in done.stderr
    assert "claim 1.target" in done.stderr
    assert "claim 1.direction" in done.stderr
    text = (tmp_path / "claims.toml").read_text().replace("atleast", "at_least")
    (tmp_path / "claims.toml").write_text(text)
    done = trackside("verify", "--claims", str(tmp_path / "claims.toml"), "--warehouse", str(root))
    assert done.returncode == 11
    assert "99 % is 0.99" in done.stderr
