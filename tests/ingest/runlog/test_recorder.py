"""The recorder as training loops use it: loaded from its text, in processes of their own where they are killed."""

from __future__ import annotations

import ast
import importlib.util
import json
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingest.runlog.lines import CUT
from tests.support.logs.run_logs import parse_runlog

if TYPE_CHECKING:
    from types import ModuleType

    from ingest.tables import Parsed

SOURCE = Path(__file__).parents[3] / "ingest" / "runlog" / "recorder" / "trackside_log.py"
SLURM = ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_CLUSTER_NAME", "SLURM_PROCID", "SLURM_NTASKS", "SLURMD_NODENAME")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name in (*SLURM, "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    spec = importlib.util.spec_from_file_location("trackside_log", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "_DRIVERS", ())  # those of the machine that tests
    return module


def read(path: Path) -> Parsed:
    return parse_runlog(path.read_bytes(), origin=path.name, cluster="alpha")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_it_is_python_3_8_and_needs_the_standard_library_only() -> None:
    tree = ast.parse(SOURCE.read_text(), feature_version=(3, 8))
    nodes = list(ast.walk(tree))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert imported <= set(sys.stdlib_module_names)
    assert "__future__" in imported  # so that no annotation is ever evaluated
    assert not [node for node in nodes if isinstance(node, ast.Match)]


def test_what_it_writes_is_read_without_a_warning(recorder: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "logs" / "run.jsonl"
    log = recorder.start(path, run_id="llama-8b", n_gpus=16, params_active=8.03e9, layers=32, heads=32, head_dim=128,
                         seq_len=8192, dtype="bf16", gpu_model="H100")  # fmt: skip
    with log.event("checkpoint_load", step=4, detail="from disk"):
        pass
    with log.step(5, tokens=1024) as this:
        this.loss = 2.5
    log.record_step(6, time.time(), 1.5, 1024, 2.4)  # noqa: TID251 - as a training loop does
    with log.checkpoint(6):
        pass
    log.close()
    parsed = read(path)
    assert parsed.rejects.is_empty()
    assert parsed.warnings == []
    assert parsed.frames["steps"].select("step", "tokens", "loss").rows() == [(5, 1024, 2.5), (6, 1024, 2.4)]
    assert dict(parsed.frames["run_events"].select("kind", "step").rows()) == {
        "checkpoint_load": 4,
        "checkpoint_save": 6,
        "step_start": 5,
    }
    save = parsed.frames["run_events"].filter(kind="checkpoint_save").row(0, named=True)
    assert save["durable_at"] == save["ended_at"] >= save["ts"]
    (session,) = parsed.frames["run_sessions"].rows(named=True)
    assert (session["n_gpus"], session["layers"], session["gpu_model"], session["scheduler"]) == (
        16,
        32,
        "H100",
        "none",
    )


def test_model_fields_round_trip_and_absent_ones_are_not_written(recorder: ModuleType, tmp_path: Path) -> None:
    reported: dict[str, Any] = {
        "hidden": 4096, "ffn_hidden": 14336, "kv_heads": 8, "vocab": 32000, "gated": True, "tied": False,
        "attention_layers": 32, "experts": 8, "top_k": 2, "shared_experts": 1, "expert_ffn_hidden": 2048,
        "expert_layers": 31, "expert_params": 4.5e10, "recompute": "selective",
    }  # fmt: skip
    recorder.start(tmp_path / "a", run_id="r", cluster="c", **reported).close()
    session = read(tmp_path / "a").frames["run_sessions"].row(0, named=True)
    assert {name: session[name] for name in reported} == reported
    recorder.start(tmp_path / "b", run_id="r", cluster="c").close()
    assert not reported.keys() & lines(tmp_path / "b")[0].keys()


def test_job_id_comes_from_slurm(recorder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported = dict(zip(SLURM, ("31", "2", "alpha", "0", "16", "n7"), strict=True))
    for name, value in reported.items():
        monkeypatch.setenv(name, value)
    recorder.start(tmp_path / "run.jsonl", run_id="r")
    (run,) = lines(tmp_path / "run.jsonl")
    assert (run["cluster"], run["scheduler"], run["job_id"], run["restart_count"]) == ("alpha", "slurm", "31", 2)
    assert (run["rank"], run["world"], run["node"]) == (0, 16, "n7")


def test_a_first_start_under_slurm_has_been_restarted_never(
    recorder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "31")
    recorder.start(tmp_path / "run.jsonl", run_id="r")
    assert lines(tmp_path / "run.jsonl")[0]["restart_count"] == 0


def test_torchruns_rank_goes_before_slurms(
    recorder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_PROCID", "0")  # one task for each node
    monkeypatch.setenv("RANK", "5")
    log = recorder.start(tmp_path / "run.jsonl", run_id="r")
    with log.step(1):
        pass
    assert not (tmp_path / "run.jsonl").exists()
    recorder.start(tmp_path / "run.jsonl", run_id="r", rank=0)
    assert lines(tmp_path / "run.jsonl")[0]["rank"] == 0


def test_a_step_that_raises_is_not_logged_and_raises(recorder: ModuleType, tmp_path: Path) -> None:
    log = recorder.start(tmp_path / "run.jsonl", run_id="r")
    with pytest.raises(KeyboardInterrupt), log.step(1):
        raise KeyboardInterrupt
    assert [line.get("kind", line["type"]) for line in lines(tmp_path / "run.jsonl")] == ["run", "step_start"]


@pytest.mark.parametrize(("took", "logged"), [(0.999, False), (1.0, True), (40.0, True)])
def test_begin_of_a_running_step_is_logged_unless_steps_are_fast(
    recorder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, took: float, logged: bool
) -> None:
    now = [1_790_812_800.0]
    monkeypatch.setattr(recorder, "_wall", lambda: now[0])
    monkeypatch.setattr(recorder, "_tick", lambda: now[0])
    path = tmp_path / "run.jsonl"
    log = recorder.start(path, run_id="r")
    with log.step(1):
        assert [line["step"] for line in lines(path)[1:]] == [1]  # the first one always: it may compile for long
        now[0] += took
    with log.step(2):
        begun = [line["step"] for line in lines(path) if line.get("kind") == "step_start"]
        assert begun == ([1, 2] if logged else [1])
        now[0] += took
    parsed = read(path)
    assert parsed.rejects.is_empty()
    assert parsed.frames["steps"]["step"].to_list() == [1, 2]
    begins = parsed.frames["run_events"].join(parsed.frames["steps"], on=["step", "ts"], how="semi")
    assert begins.height == len(begun)  # a begin is that of its step to the microsecond


def test_a_save_that_raises_took_its_time_and_is_not_durable(recorder: ModuleType, tmp_path: Path) -> None:
    log = recorder.start(tmp_path / "run.jsonl", run_id="r")
    with pytest.raises(OSError, match="disk"), log.checkpoint(1):
        raise OSError("disk")
    assert lines(tmp_path / "run.jsonl")[1]["durable"] is None


def test_background_save_is_durable_once_reported_durable(recorder: ModuleType, tmp_path: Path) -> None:
    log = recorder.start(tmp_path / "run.jsonl", run_id="r")
    with log.checkpoint_async(7) as saving:
        pass
    assert read(tmp_path / "run.jsonl").frames["run_events"]["durable_at"].to_list() == [None]
    time.sleep(0.01)
    saving.durable()
    (save,) = read(tmp_path / "run.jsonl").frames["run_events"].rows(named=True)
    assert save["durable_at"] > save["ended_at"]
    assert save["blocking"]


def test_a_save_that_nothing_waits_for_does_not_block(recorder: ModuleType, tmp_path: Path) -> None:
    log = recorder.start(tmp_path / "run.jsonl", run_id="r")
    handle = log.checkpoint_async(7)
    handle.durable()
    (save,) = read(tmp_path / "run.jsonl").frames["run_events"].rows(named=True)
    assert save["durable_at"] == save["ended_at"]
    assert not save["blocking"]


def test_background_save_that_fails_to_begin_is_never_durable(recorder: ModuleType, tmp_path: Path) -> None:
    log = recorder.start(tmp_path / "run.jsonl", run_id="r")
    saving = log.checkpoint_async(7)
    with pytest.raises(ValueError, match="no"), saving:
        raise ValueError("no")
    saving.durable()
    assert [line.get("durable") for line in lines(tmp_path / "run.jsonl")] == [None, None]


class Tensor:
    """What numbers look like in training loops."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value

    def __index__(self) -> int:
        return int(self.value)


class Broken:
    def __float__(self) -> float:
        raise RuntimeError("device-side assert triggered")


def test_numbers_may_be_tensors_and_broken_ones_are_missing(recorder: ModuleType, tmp_path: Path) -> None:
    log = recorder.start(tmp_path / "run.jsonl", run_id="r")
    for number, loss in ((Tensor(1), Tensor(2.5)), (2, float("nan")), (3, Broken()), (4, "low")):
        with log.step(number, tokens=Tensor(64), loss=loss):
            pass
    steps = [line for line in lines(tmp_path / "run.jsonl") if line["type"] == "step"]
    assert [line["step"] for line in steps] == [1, 2, 3, 4]
    assert [line["loss"] for line in steps] == [2.5, None, None, None]


def test_full_disk_is_reported_once_and_training_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    result = run(path, "with log.step(n): pass", limit=700)
    assert result.returncode == 0
    assert result.stdout == "trained 100\n"
    assert result.stderr.count("\n") == 1
    assert "Training goes on" in result.stderr
    assert path.stat().st_size <= 700
    assert read(path).frames["steps"].height > 0


def run(path: Path, body: str, *, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """A training loop in a process of its own; `limit` is the most bytes that a file may have."""
    loop = (
        "import sys; sys.path.insert(0, sys.argv[1]); import trackside_log as t; "
        "log = t.start(sys.argv[2], run_id='r')\n"
        f"for n in range(100):\n    {body}\n"
        "print('trained 100')"
    )

    def narrow() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit or 0, limit or 0))

    return subprocess.run(
        [sys.executable, "-c", loop, str(SOURCE.parent), str(path)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=narrow if limit else None,
    )


def test_unwritable_folder_is_reported_once(
    recorder: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    log = recorder.start(tmp_path / "file" / "run.jsonl", run_id="r")
    for number in range(3):
        with log.step(number), log.event("eval"):
            pass
    log.close()
    assert capsys.readouterr().err.count("Training goes on") == 1


@pytest.mark.parametrize("path", [None, 3.5, "a\0b"])
def test_a_path_that_is_none_does_not_stop_training(recorder: ModuleType, path: Any) -> None:
    with recorder.start(path, run_id="r") as log, log.step(1):
        pass


def test_closed_recorder_accepts_lines_and_reports_it(
    recorder: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = recorder.start(tmp_path / "run.jsonl", run_id="r")
    log.close()
    log.close()
    log.record_step(1, 1790812800, 1.0)
    log.record_step(2, 1790812801, 1.0)
    assert capsys.readouterr().err.count("it is closed") == 1


def test_non_numeric_step_is_left_out_and_reported(
    recorder: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = recorder.start(tmp_path / "run.jsonl", run_id="r")
    log.record_step("first", 1790812800, 1.0)
    log.record_step(1.0, 1790812800, 1.0)
    assert [line.get("step") for line in lines(tmp_path / "run.jsonl")[1:]] == [1]
    assert "a whole number and a time are needed" in capsys.readouterr().err


def test_threads_and_processes_write_whole_lines(tmp_path: Path, recorder: ModuleType) -> None:
    path = tmp_path / "run.jsonl"
    log = recorder.start(path, run_id="r")
    threads = [
        threading.Thread(target=lambda: [log.record_step(n, 1790812800 + n, 1.0) for n in range(500)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    others = [run(path, "log.record_step(n, 1790812800 + n, 1.0)") for _ in range(2)]
    for thread in threads:
        thread.join()
    assert all(other.returncode == 0 for other in others)
    assert len(lines(path)) == 3 + 4 * 500 + 2 * 100


def test_killed_process_leaves_one_cut_line_at_most_and_resumes(tmp_path: Path, recorder: ModuleType) -> None:
    """The next process writes on behind it."""
    path = tmp_path / "run.jsonl"
    endless = (
        "import sys, itertools; sys.path.insert(0, sys.argv[1]); import trackside_log as t; "
        "log = t.start(sys.argv[2], run_id='r')\n"
        "for n in itertools.count(): log.record_step(n, 1790812800 + n, 1.0, loss=2.5)"
    )
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", endless, str(SOURCE.parent), str(path)])
        size = path.stat().st_size if path.exists() else 0
        until = time.monotonic() + 30
        while time.monotonic() < until and (not path.exists() or path.stat().st_size < size + 5_000):
            time.sleep(0.001)
        process.kill()
        process.wait()
    parsed = read(path)
    assert parsed.frames["run_sessions"].height == 5
    assert parsed.rejects.height <= 5
    assert set(parsed.rejects["reason"]) <= {CUT}


def test_a_start_behind_a_cut_line_begins_a_line_of_its_own(recorder: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recorder.start(path, run_id="r").close()
    with path.open("a") as file:
        file.write('{"type":"step","st')
    recorder.start(path, run_id="r")
    parsed = read(path)
    assert parsed.frames["run_sessions"].height == 2
    assert parsed.rejects["reason"].to_list() == [CUT]


def test_a_session_without_stderr_trains_too(tmp_path: Path, recorder: ModuleType) -> None:
    code = (
        "import sys; sys.stderr = None; sys.path.insert(0, sys.argv[1]); import trackside_log as t; "
        "t.start('/dev/null/x', run_id='r').record_step(1, 1790812800, 1)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(SOURCE.parent)], check=False)
    assert done.returncode == 0


class Hostile:
    """An object whose every own method raises something of its own."""

    class Error(Exception):
        def __str__(self) -> str:
            raise self

    def _raise(self, *_: object) -> Any:
        raise Hostile.Error

    __float__ = __index__ = __int__ = __str__ = __repr__ = __ne__ = __eq__ = __bool__ = __fspath__ = _raise
    __hash__ = None  # type: ignore[assignment]  # nor can it be looked up


def test_hostile_objects_never_stop_training(
    recorder: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = recorder.start(tmp_path / "run.jsonl", run_id="r", n_gpus=Hostile(), params=Hostile())
    with log.step(1, tokens=Hostile(), loss=Hostile()):
        pass
    with log.step(Hostile()), log.event(Hostile(), step=Hostile(), detail=Hostile()), log.checkpoint(Hostile()):
        pass
    log.record_checkpoint(1, Hostile(), Hostile(), Hostile(), blocking=Hostile())
    log.record_event("eval", Hostile(), Hostile())
    log.write({"loss": Hostile()})
    log.close()
    assert [line.get("step") for line in lines(tmp_path / "run.jsonl") if line["type"] == "step"] == [1]
    assert capsys.readouterr().err.count("Training goes on") == 1


@pytest.mark.parametrize(
    "reported", [{"run_id": Hostile()}, {"run_id": "r", "rank": Hostile()}, {"run_id": "r", "node": Hostile()}]
)
def test_unwritable_start_is_reported_once_and_writes_nothing(
    recorder: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], reported: dict[str, object]
) -> None:
    with recorder.start(tmp_path / "run.jsonl", **reported) as log:
        for number in range(3):
            with log.step(number):
                pass
    output = capsys.readouterr().err
    assert output.count("Training goes on") == 1
    assert "run.jsonl" in output


def test_path_that_raises_is_reported_once(recorder: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with recorder.start(Hostile(), run_id="r") as log, log.step(1):
        pass
    assert capsys.readouterr().err.count("Training goes on") == 1


def test_the_run_line_has_the_recipe_and_ids_of_its_pod(
    recorder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {"wandb_run_id": "WANDB_RUN_ID", "pod": "POD_NAME", "pod_namespace": "POD_NAMESPACE", "pod_uid": "POD_UID"}
    for variable in (*ids.values(), "KUBERNETES_SERVICE_HOST"):
        monkeypatch.setenv(variable, f"its {variable}")
    sizes = {f"{name}_parallel": 2 for name in ("tensor", "pipeline", "data", "context", "expert")}
    recorder.start(
        tmp_path / "run.jsonl", run_id="r", recipe="base", global_batch=512, learning_rate=3e-4, **sizes
    ).close()
    (run_line,) = lines(tmp_path / "run.jsonl")
    assert {name: run_line[name] for name in ids} == {name: f"its {variable}" for name, variable in ids.items()}
    assert {name: run_line[name] for name in sizes} == sizes
    session = read(tmp_path / "run.jsonl").frames["run_sessions"].row(0, named=True)
    assert (session["scheduler"], session["recipe"], session["global_batch"], session["learning_rate"]) == (
        "kubernetes", "base", 512, 3e-4,
    )  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [
        (1790812800.123456, 1.5, 64, 2.5),
        (1790812800.9999999, 0.0, None, None),
        (1790812800, 1, 64.5, 3),
        (1790812800.5, float("inf"), 10**20, float("-inf")),
        (1790812800.5, 1e-9, -1, 1e-30),
    ],
)
def test_the_fast_way_to_write_a_step_writes_the_same(
    recorder: ModuleType, tmp_path: Path, values: tuple[float, ...]
) -> None:
    log = recorder.start(tmp_path / "run.jsonl", run_id="r")
    log.record_step(1, *values)
    log.record_step("1", *values)  # is written by json
    fast, slow = lines(tmp_path / "run.jsonl")[1:]
    assert {name: pytest.approx(value, abs=1e-6) for name, value in slow.items()} == fast


def test_a_number_of_too_many_digits_does_not_stop_training(recorder: ModuleType, tmp_path: Path) -> None:
    log = recorder.start(tmp_path / "run.jsonl", run_id="r")
    log.record_step(10**5000, 1790812800.5, 1.0, 10**5000, 2.5)
    log.record_step(2, 1790812800.5, 1.0)
    assert [line["step"] for line in lines(tmp_path / "run.jsonl")[1:]] == [2]


def test_a_full_device_is_reported_once(recorder: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    log = recorder.start("/dev/full", run_id="r")
    for number in range(3):
        with log.step(number, tokens=1):
            pass
    log.close()
    assert capsys.readouterr().err.count("Training goes on") == 1


@pytest.mark.slow
def test_a_kill_loses_nothing_but_the_unwritten_step(tmp_path: Path) -> None:
    """50 kills at random moments: every step of which the loop was told that it is logged is in the log."""
    code = (
        "import sys, os; sys.path.insert(0, sys.argv[1]); import trackside_log as t; "
        "log = t.start(sys.argv[2], run_id='r')\n"
        "for n in range(10**9):\n"
        "    log.record_step(n, 1790812800.5 + n, 1.0, 64, 2.5)\n"
        "    os.write(1, n.to_bytes(8, 'little'))"
    )
    chance = random.Random(29)
    for number in range(50):
        path = tmp_path / f"{number}.jsonl"
        command = [sys.executable, "-S", "-c", code, str(SOURCE.parent), str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            acknowledged = process.stdout.read(8 * chance.randrange(1, 300))
            time.sleep(chance.random() / 200)
            process.kill()
            acknowledged += process.stdout.read()
        end = len(acknowledged) // 8 * 8
        last = int.from_bytes(acknowledged[end - 8 : end], "little")
        written = [line for line in path.read_bytes().split(b"\n")[1:-1] if line.endswith(b"}")]
        assert json.loads(written[-1])["step"] >= last


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n", "535.129.03"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC 12.3\n", "570.86.15"),
        ("6.8.5\n", "6.8.5"),
        ("", None),
    ],
)
def test_the_driver_is_that_of_the_kernel(
    recorder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, version: str | None
) -> None:
    (tmp_path / "version").write_text(text)
    monkeypatch.setattr(recorder, "_DRIVERS", (str(tmp_path / "none"), str(tmp_path / "version")))
    recorder.start(tmp_path / "run.jsonl", run_id="r", rank=0).close()
    run, *others = lines(tmp_path / "run.jsonl")
    assert [(one["kind"], one["detail"], one["begin"]) for one in others] == (
        [("driver", version, run["t"])] if version else []
    )
