"""`trackside reproduce` on publications in the published layout whose answers are known."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.support.command import trackside
from tests.support.logs.mlperf import BEGIN_MS, BENCHMARK, MlperfRun, publish

PUBLIC = [Path(__file__).parents[4] / "shared" / "public", Path(os.environ.get("TRACKSIDE_PUBLIC_DATA", "."))]
OFFICIAL = "mean of the runs without the fastest and the slowest, x scaling factor"
OF_TWO = "mean of 2 runs that reached the target, x scaling factor"
OF_ONE = "mean of 1 run that reached the target, x scaling factor"
MLPERF = "mlperf-training-v5.0"
TRACES = "elasticflow"


def rows_of(name: str, path: Path, folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    done = trackside("reproduce", name, str(path), "--dir", str(folder), "--format", "json", "--quiet")
    assert done.returncode == 0, done.stderr
    return {(row["quantity"], row["explanation"].split(";")[0]): row for row in json.loads(done.stdout)}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two sizes of one submitter, 4 and 8 GPUs a node, whose runs are numbered from 0 and from 1."""
    root = tmp_path / "results"
    hour = 3_600_000
    small = {number: MlperfRun(begin_ms=BEGIN_MS + number * hour) for number in (0, 1)}
    folder = publish(root, "Acme + Co", "small", small, nodes=4, gpus=4)
    (folder / "scaling.json").write_text('{"scaling_factor": 1.5}')
    large = {1: MlperfRun(step_s=10.0, begin_ms=BEGIN_MS + 5 * hour)}
    publish(root, "Acme + Co", "large", large, nodes=4, gpus=8)
    return root


@pytest.mark.slow
def test_time_to_train_and_scaling_are_as_written(results: Path, tmp_path: Path) -> None:
    rows = rows_of("mlperf-v5.0", results, tmp_path / "out")
    assert rows["time to train, 16 GPUs", OF_TWO]["computed"] == pytest.approx(200 * 1.5 / 60)
    assert rows["time to train, 32 GPUs", OF_ONE]["computed"] == pytest.approx(140 / 60)
    scaling = rows["strong scaling, 16 to 32 GPUs", "by mean time to train"]["computed"]
    assert scaling == pytest.approx((300 * 16) / (140 * 32))


@pytest.mark.slow
def test_the_official_time_is_that_of_mlperf(tmp_path: Path) -> None:
    hour = 3_600_000
    of_steps = {0: 10.0, 1: 30.0, 2: 12.0}
    runs = {n: MlperfRun(step_s=step_s, begin_ms=BEGIN_MS + n * hour) for n, step_s in of_steps.items()}
    publish(tmp_path / "in", "Acme", "x", runs, nodes=4, gpus=4)
    rows = rows_of("mlperf-v5.0", tmp_path / "in", tmp_path / "out")
    assert rows["official time, 16 GPUs", OFFICIAL]["computed"] == pytest.approx((6 * 12 + 2 * 40) / 60)
    of_three = OF_TWO.replace("2", "3")
    assert rows["time to train, 16 GPUs", of_three]["computed"] == pytest.approx((6 * (10 + 30 + 12) / 3 + 80) / 60)


@pytest.mark.slow
def test_other_benchmarks_have_their_official_time(tmp_path: Path) -> None:
    """One system ran two benchmarks: they are never averaged, and of the one whose model is unknown MFU is null."""
    root = tmp_path / "in"
    for at, name in enumerate(("llama2_70b_lora", "llama31_8b", BENCHMARK)):
        begins = [BEGIN_MS + (10 * at + number) * 3_600_000 for number in range(3)]
        runs = {n: MlperfRun(step_s=10.0 + n, begin_ms=begin, benchmark=name) for n, begin in enumerate(begins)}
        publish(root, "Acme", "x", runs, nodes=2, gpus=8)
    options = ("--benchmark", "llama2_70b_lora", "--benchmark", "llama31_8b", "--dtype", "fp8", "--format", "json")
    done = trackside("reproduce", "mlperf-v5.1", str(root), "--dir", str(tmp_path / "out"), *options)
    assert done.returncode == 0, done.stderr
    assert "not read: Acme/x: llama31_405b (to read it: --benchmark llama31_405b)" in done.stderr
    rows = {(row["quantity"], row["explanation"].split(";")[0]): row["computed"] for row in json.loads(done.stdout)}
    for cluster in ("Acme-llama2_70b_lora", "Acme-llama31_8b"):
        assert rows[f"{cluster}: official time, 16 GPUs", OFFICIAL] == pytest.approx((6 * 11 + 2 * 40) / 60)
    flop = 6 * 8_030_261_248 + 12 * 32 * 32 * 128 * 8192
    mfu = 18 * 12 * 8192 * flop / (6 * 33.0 * 16 * 1979e12)
    of_8b = rows["Acme-llama31_8b: MFU, 16 GPUs", "palm_full, dense FP8 peak"]
    assert of_8b == pytest.approx(mfu, rel=1e-3)
    of_lora = [value for (quantity, _), value in rows.items() if "lora: MFU" in quantity]
    assert of_lora == [None]


def test_a_benchmark_that_is_not_there_is_refused(results: Path) -> None:
    done = trackside("reproduce", "mlperf-v5.0", str(results), "--benchmark", "gpt3")
    assert done.returncode == 2
    assert "has no results of gpt3; it has: llama31_405b" in done.stderr
    assert "elasticflow has no benchmarks" in trackside("reproduce", "elasticflow", ".", "--benchmark", "x").stderr


@pytest.mark.slow
def test_two_systems_of_one_size_are_not_averaged(results: Path, tmp_path: Path) -> None:
    publish(results, "Acme + Co", "tuned", {0: MlperfRun(step_s=10.0)}, nodes=2, gpus=8)
    publish(results, "Bolt", "only", {0: MlperfRun(step_s=10.0)}, nodes=2, gpus=8)
    rows = rows_of("mlperf-v5.0", results, tmp_path / "out")
    times = {quantity: row["computed"] for (quantity, _), row in rows.items() if "time to train" in quantity}
    assert times == {
        "Acme-Co: time to train, 32 GPUs": pytest.approx(140 / 60),
        "Acme-Co-small: time to train, 16 GPUs": pytest.approx(200 * 1.5 / 60),
        "Acme-Co-tuned: time to train, 16 GPUs": pytest.approx(140 / 60),
        "Bolt: time to train, 16 GPUs": pytest.approx(140 / 60),
    }


@pytest.mark.slow
def test_kinds_of_gpus_are_not_compared(results: Path, tmp_path: Path) -> None:
    described = results / "Acme + Co" / "systems" / "large.json"
    described.write_text(described.read_text().replace("H100-SXM5-80GB", "H200-SXM-141GB"))
    rows = rows_of("mlperf-v5.0", results, tmp_path / "out")
    assert not [quantity for quantity, _ in rows if "scaling" in quantity]


@pytest.mark.slow
def test_mfu_is_that_of_the_written_steps(results: Path, tmp_path: Path) -> None:
    rows = rows_of("mlperf-v5.0", results, tmp_path / "out")
    flop = 6 * 405_849_533_440 + 12 * 126 * 128 * 128 * 8192  # PaLM, appendix B
    mfu = 12 * 8192 * flop / (20.0 * 16 * 1979e12)
    assert rows["MFU, 16 GPUs", "palm_full, dense FP8 peak"]["computed"] == pytest.approx(mfu, rel=1e-6)
    assert rows["tokens/s/GPU, 16 GPUs", "kept steps"]["computed"] == pytest.approx(12 * 8192 / 20 / 16)


@pytest.mark.slow
def test_system_description_goes_before_the_log(tmp_path: Path) -> None:
    publish(tmp_path / "in", "Acme", "x", {0: MlperfRun(platform="4xNVIDIA GB200")}, nodes=4, gpus=4)
    out = str(tmp_path / "out")
    done = trackside("reproduce", "mlperf-v5.0", str(tmp_path / "in"), "--dir", out, "--format", "json")
    rows = {(row["quantity"], row["explanation"]): row["computed"] for row in json.loads(done.stdout)}
    flop = 6 * 405_849_533_440 + 12 * 126 * 128 * 128 * 8192
    mfu = 12 * 8192 * flop / (20.0 * 16 * 1979e12)  # an H100's peak
    assert rows["MFU, 16 GPUs", "palm_full, dense FP8 peak"] == pytest.approx(mfu, rel=1e-6)
    named = "its platform, NVIDIA GB200: the system's description says NVIDIA H100-SXM5-80GB"
    assert f"not read: {tmp_path / 'in'}/Acme/results/x/llama31_405b/result_0.txt: {named}" in done.stderr


@pytest.mark.slow
def test_what_is_not_read_is_named(results: Path, tmp_path: Path) -> None:
    other = results / "Acme + Co" / "results" / "small" / "bert"
    other.mkdir()
    (other / "result_0.txt").write_text(MlperfRun().text())
    publish(results, "Bare", "lonely", {0: MlperfRun()}, nodes=1, gpus=8)
    (results / "Bare" / "systems" / "lonely.json").unlink()
    done = trackside("reproduce", "mlperf-v5.0", str(results), "--dir", str(tmp_path / "out"))
    assert done.returncode == 0
    assert "not read: Acme + Co/small: bert (to read it: --benchmark bert)" in done.stderr
    assert "lonely.json: the system's description cannot be used" in done.stderr


@pytest.mark.slow
def test_twice_is_once_and_other_files_need_another_folder(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    first = rows_of("mlperf-v5.0", results, folder)
    assert rows_of("mlperf-v5.0", results, folder) == first
    shutil.rmtree(results / "Acme + Co" / "results" / "large")
    done = trackside("reproduce", "mlperf-v5.0", str(results), "--dir", str(folder))
    assert done.returncode == 2
    assert "--dir" in done.stderr


@pytest.mark.slow
def test_verdicts_and_reports_are_written(tmp_path: Path) -> None:
    run = MlperfRun(steps=450, batch=76, step_s=2.0)
    publish(tmp_path / "in", "Acme", "large", {0: run}, nodes=128, gpus=8)
    done = trackside("reproduce", "mlperf-v5.0", str(tmp_path / "in"), "--dir", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "mfu_fp8" in done.stdout
    assert "mfu_bf16" in done.stdout
    assert "time_" not in done.stdout  # nothing is published of this submitter
    assert (tmp_path / "out" / "sla-Acme.html").exists()


@pytest.mark.slow
def test_gpu_hours_of_traces_are_as_written(tmp_path: Path) -> None:
    texts = {
        "cluster02.csv": "job_id,submission_time,duration,num_gpu\na-1,100,3600,8\na-2,200,1800,4\n",
        "cluster01.csv": "job_id,submission_time,duration,num_gpu\nb-1,0,7200,1",
        "notes.csv": "what,ever\n1,2\n",
    }
    archive = tmp_path / "raw-traces.tar.gz"
    with tarfile.open(archive, "w:gz") as opened:
        for name, text in texts.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            opened.addfile(member, io.BytesIO(text.encode()))
    rows = rows_of("elasticflow", archive, tmp_path / "out")
    assert rows["GPU-hours of cluster-01", ""]["computed"] == pytest.approx(2.0)
    assert rows["GPU-hours of cluster-02", ""]["computed"] == pytest.approx(10.0)
    assert rows["GPU-hours of all", ""]["computed"] == pytest.approx(12.0)


@pytest.mark.slow
def test_the_question_at_the_end_is_one_that_the_files_answer(tmp_path: Path) -> None:
    """Traces of jobs have no steps, and so no MFU."""
    (tmp_path / "cluster01.csv").write_text("job_id,submission_time,duration,num_gpu\nb-1,0,7200,1\n")
    done = trackside("reproduce", "elasticflow", str(tmp_path), "--dir", str(tmp_path / "out"))
    assert "The warehouse: trackside show goodput --warehouse " in done.stdout


@pytest.mark.slow
def test_traces_next_to_their_archive_count_once(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    text = "job_id,submission_time,duration,num_gpu\na-1,100,3600,8\na-2,soon,1800,4\na-3,5\n"
    (folder / "cluster01.csv").write_text(text)
    with tarfile.open(folder / "raw-traces.tar.gz", "w:gz") as opened:
        opened.add(folder / "cluster01.csv", "cluster01.csv")
    done = trackside("reproduce", "elasticflow", str(folder), "--dir", str(tmp_path / "out"), "--format", "json")
    assert {row["quantity"]: row["computed"] for row in json.loads(done.stdout)} == {
        "GPU-hours of cluster-01": 8.0,
        "GPU-hours of all": 8.0,
    }
    assert "cluster01.csv, row 2: " in done.stderr
    assert "cluster01.csv, row 3: " in done.stderr


@pytest.mark.slow
def test_damaged_published_files_are_named(tmp_path: Path, results: Path) -> None:
    damaged = tmp_path / "raw-traces.tar.gz"
    damaged.write_bytes(b"\x1f\x8b nothing")
    done = trackside("reproduce", "elasticflow", str(damaged), "--dir", str(tmp_path / "out"))
    assert done.returncode == 2
    assert f"{damaged} cannot be read" in done.stderr
    folder = results / "Acme + Co" / "results" / "small" / "llama31_405b"
    (folder / "result_2.txt.gz").write_bytes(b"\x1f\x8b nothing")
    done = trackside("reproduce", "mlperf-v5.0", str(results), "--dir", str(tmp_path / "logs"))
    assert done.returncode == 0
    assert "result_2.txt.gz" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense", "."], "there is no publication 'nonsense'; there are: elasticflow, mlperf-v5.0"),
        (["mlperf-v5.0"], "name the published files"),
        (["mlperf-v5.0", "nowhere"], "there is no nowhere"),
        (["mlperf-v5.0", "."], "no result of MLPerf Training"),
        (["elasticflow", "."], "no trace of ElasticFlow"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = trackside("reproduce", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


def test_publications_are_listed_without_a_name() -> None:
    done = trackside("reproduce")
    assert done.returncode == 0
    names = [line.split()[0] for line in done.stdout.splitlines() if line[0] != " "]
    assert names == ["elasticflow", "mlperf-v5.0", "straggler-artifact"]


@pytest.mark.slow
def test_facts_that_a_log_does_not_record_are_stated(tmp_path: Path) -> None:
    log = tmp_path / "result_0.txt"
    log.write_text(MlperfRun().text())
    where = ("--warehouse", str(tmp_path / "w"))
    done = trackside("ingest", "runlog", str(log), "--set", "n_gpus=16", "--set", "dtype=fp8", *where)
    assert done.returncode == 0, done.stderr
    facts = "SELECT n_gpus, dtype, gpu_model FROM run_sessions"
    assert trackside("sql", facts, "--format", "csv", *where).stdout.splitlines()[1] == "16,fp8,NVIDIA H100"
    own = tmp_path / "run.jsonl"
    own.write_text('{"type":"run","v":1,"t":1790812800.5,"run_id":"r"}\n')
    stated = trackside("ingest", "runlog", str(own), "--set", "n_gpus=24", "--set", "run_id=x", *where)
    assert stated.returncode == 0, stated.stderr
    assert "records its own run_id" in stated.stderr
    of_r = "SELECT n_gpus FROM run_sessions WHERE run_id = 'r'"
    assert trackside("sql", of_r, "--format", "csv", *where).stdout.splitlines()[1] == "24"


def public(name: str) -> Path:
    """The published files, where this machine has them."""
    for folder in PUBLIC:
        if (folder / name).is_dir():
            return folder / name
    pytest.skip(f"published files {name}; put them into $TRACKSIDE_PUBLIC_DATA (app/docs/proof.md says from where)")


@pytest.mark.slow
def test_published_times_and_mfu_of_a_vendor_come_out(tmp_path: Path) -> None:
    flat = public(MLPERF)
    root = tmp_path / "IBM+CoreWeave+NVIDIA"
    for log in flat.glob("carina_*.txt.gz"):
        _, gpus, number = log.name.partition(".")[0].split("_")
        folder = root / "results" / f"carina_ngpu{gpus}_ngc25.04_nemo" / "llama31_405b"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(log, folder / f"result_{number}.txt.gz")
        shutil.copy(flat / f"carina_{gpus}_scaling.json", folder / "scaling.json")
        (root / "systems").mkdir(exist_ok=True)
        shutil.copy(flat / f"carina_{gpus}_system.json", root / "systems" / f"{folder.parent.name}.json")
    rows = rows_of("mlperf-v5.0", tmp_path, tmp_path / "out")
    means = [row["computed"] for (quantity, _), row in rows.items() if quantity.startswith("time to train")]
    assert [round(mean, 2) for mean in means] == [121.28, 62.06, 44.32, 32.65, 27.32]
    assert round(rows["strong scaling, 512 to 2,496 GPUs", "by mean time to train"]["computed"], 4) == 0.9105
    times = [row for (quantity, _), row in rows.items() if quantity.startswith("official time")]
    assert [row["published"] for row in times] == [121.1, 62.1, 42.46, 32.6, 27.33]
    assert [round(row["difference"], 9) for row in times] == [0.0] * 5
    assert round(rows["strong scaling, 512 to 2,496 GPUs", "by official time"]["computed"], 4) == 0.9087
    assert round(rows["MFU, 1,024 GPUs and more", "palm_full, dense FP8 peak"]["computed"], 4) == 0.3750
    verdicts = verdicts_of(tmp_path / "out", "IBM-CoreWeave-NVIDIA")
    of_times = {f"time_{gpus}": "supported" for gpus in (512, 1024, 1536, 2048, 2496)}
    assert verdicts == {"mfu_fp8": "refuted", "mfu_bf16": "supported", "scaling": "supported", **of_times}


@pytest.mark.slow
def test_other_rounds_have_the_same_layout_without_numbers(results: Path, tmp_path: Path) -> None:
    (results / "Acme + Co").rename(results / "IBM+CoreWeave+NVIDIA")
    rows = rows_of("mlperf-v5.1", results, tmp_path / "out")
    assert rows["time to train, 16 GPUs", OF_TWO]["published"] is None
    figure = (tmp_path / "out" / "figure-IBM-CoreWeave-NVIDIA.svg").read_text()
    assert ET.fromstring(figure).tag == "{http://www.w3.org/2000/svg}svg"
    assert "published" not in figure


@pytest.mark.slow
@pytest.mark.parametrize(("options", "peak", "flops"), [((), None, 0), (("--dtype", "bf16"), "BF16", 989.5e12)])
def test_the_data_type_of_another_round_is_stated_or_unknown(
    results: Path, tmp_path: Path, options: tuple[str, ...], peak: str | None, flops: float
) -> None:
    command = ("reproduce", "mlperf-v3.1", str(results), "--dir", str(tmp_path / "out"), "--format", "json", *options)
    done = trackside(*command)
    assert done.returncode == 0, done.stderr
    computed = {(row["quantity"], row["explanation"]): row["computed"] for row in json.loads(done.stdout)}
    if peak is None:
        assert "state it: --dtype fp8+bf16" in done.stderr
        assert computed["MFU, 16 GPUs", "palm_full, data type unknown"] is None
    else:
        flop = 12 * 8192 * (6 * 405_849_533_440 + 12 * 126 * 128 * 128 * 8192)
        expected = flop / (20.0 * 16 * flops)
        assert computed["MFU, 16 GPUs", f"palm_full, dense {peak} peak"] == pytest.approx(expected, rel=1e-3)


def test_a_data_type_that_is_none_is_refused(results: Path) -> None:
    wrong = trackside("reproduce", "mlperf-v5.1", str(results), "--dtype", "fp7")
    assert "no data type whose peak is known" in wrong.stderr
    assert "elasticflow has no data type" in trackside("reproduce", "elasticflow", ".", "--dtype", "fp8").stderr


@pytest.mark.slow
def test_odd_results_are_counted_named_or_unknown(tmp_path: Path) -> None:
    root, hour = tmp_path / "in", 3_600_000
    runs = {
        0: MlperfRun(platform="2xX9"),
        1: MlperfRun(platform="2xX9", begin_ms=BEGIN_MS + hour, status="aborted"),
        2: MlperfRun(platform="2xX9", begin_ms=BEGIN_MS + 2 * hour),
    }
    folder = publish(root, "Odd", "gaudi9", runs, nodes=2, gpus=8)
    stopped = (folder / "result_2.txt").read_text().splitlines()[:-1]
    (folder / "result_2.txt").write_text("\n".join(stopped))  # killed before its run_stop
    (folder / "result_3.txt").write_text("no entry at all\n")
    marks = (folder / "result_1.txt").read_text().splitlines()
    early = [line for line in marks if "tracked_stats" not in line]
    (folder / "result_4.txt").write_text("\n".join(early))  # aborted before its first step
    (folder / "result_5.txt").write_text("\n".join(early[:4]))  # killed during its start-up
    (folder / "result_0.txt.gz").write_bytes(gzip.compress((folder / "result_0.txt").read_bytes()))
    described = json.loads((root / "Odd" / "systems" / "gaudi9.json").read_text())
    (root / "Odd" / "systems" / "gaudi9.json").write_text(json.dumps(described | {"accelerator_model_name": "X9"}))
    bad = publish(root, "Odd", "scaled", {0: MlperfRun()}, nodes=2, gpus=8)
    (bad / "scaling.json").write_text('{"scaling_factor": "much"}')
    publish(root, "Odd", "empty", {0: MlperfRun()}, nodes=0, gpus=8)
    done = trackside("reproduce", "mlperf-v5.0", str(root), "--dir", str(tmp_path / "out"), "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = {(row["quantity"], row["explanation"]): row["computed"] for row in json.loads(done.stdout)}
    few = f"{OF_ONE}; no official time: too few did"
    assert rows["time to train, 16 GPUs", few] == pytest.approx(200 / 60)
    assert rows["runs without a time, 16 GPUs", "ended: aborted, no run_stop"] == 4
    assert rows["MFU, 16 GPUs", "palm_full, dense FP8 peak"] is None
    assert rows["tokens/s/GPU, 16 GPUs", "kept steps"] == pytest.approx(12 * 8192 / 20 / 16)
    for named in ("result_3.txt: there is no line", "Odd/scaled: ", "it has no accelerators"):
        assert named in done.stderr


@pytest.mark.slow
def test_a_log_without_steps_or_tokens_has_its_official_time(tmp_path: Path) -> None:
    """As of submitters that do not log each step: nothing is known of their speed, which is not 0."""
    root = tmp_path / "in"
    without = {"Timed": ("tracked_stats", "block_"), "Untold": ("max_sequence_length",), "Blocks": ("tracked_stats",)}
    for name, dropped in without.items():
        folder = publish(root, name, "x8", {0: MlperfRun()}, nodes=2, gpus=8)
        lines = (folder / "result_0.txt").read_text().splitlines()
        (folder / "result_0.txt").write_text(
            "\n".join(line for line in lines if not any(key in line for key in dropped))
        )
    done = trackside("reproduce", "mlperf-v5.0", str(root), "--dir", str(tmp_path / "out"), "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = {row["quantity"]: row["computed"] for row in json.loads(done.stdout)}
    assert rows["Timed: time to train, 16 GPUs"] == rows["Untold: time to train, 16 GPUs"] == pytest.approx(200 / 60)
    assert rows["Untold: tokens/s/GPU, 16 GPUs"] is None
    assert rows["Timed: tokens/s/GPU, 16 GPUs"] is None  # its row says that no step has a time
    assert rows["Blocks: tokens/s/GPU, 16 GPUs"] == pytest.approx(12 * 8192 / 20 / 16)


@pytest.mark.slow
def test_traces_are_numbered_by_their_names(tmp_path: Path) -> None:
    for number, hours in ((3, 2), (10, 1)):
        text = f"job_id,submission_time,duration,num_gpu\na,0,{hours * 3600},4\n"
        (tmp_path / f"cluster{number:02d}.csv").write_text(text)
    rows = rows_of("elasticflow", tmp_path, tmp_path / "out")
    assert rows["GPU-hours of cluster-03", ""]["computed"] == pytest.approx(8.0)
    assert rows["GPU-hours of cluster-10", ""]["computed"] == pytest.approx(4.0)


def verdicts_of(folder: Path, cluster: str) -> dict[str, str]:
    """The verdicts on a cluster's claims, by `trackside verify` on the warehouse and the claims that were written."""
    claims = ("--claims", str(folder / f"claims-{cluster}.toml"), "--warehouse", str(folder / "warehouse"))
    done = trackside("verify", "--cluster", cluster, *claims, "--format", "json")
    return {row["claim"]: row["verdict"] for row in json.loads(done.stdout)}


CLAIMS = """
[[claim]]
id = "strong"
metric = "scaling_efficiency"
quoted = "q"
read_as = "r"
kind = "delivered"
target = 0.9
direction = "at_least"
scaling = "strong"
gpus = 32
base_gpus = 16

[[claim]]
id = "by_time"
metric = "scaling_efficiency"
quoted = "q"
read_as = "r"
kind = "delivered"
target = 1.1
direction = "at_most"
scaling = "strong"
basis = "time"
gpus = 32
base_gpus = 16

[[claim]]
id = "capability"
metric = "time_to_train"
quoted = "q"
read_as = "r"
kind = "capability"
target = 300
direction = "at_most"
gpus = 16

[[claim]]
id = "to_tokens"
metric = "time_to_train"
quoted = "q"
read_as = "r"
kind = "delivered"
target = 60
direction = "at_most"
gpus = 32
tokens = 589824
runs = "large/*"

[[claim]]
id = "no_such_size"
metric = "time_to_train"
quoted = "q"
read_as = "r"
kind = "delivered"
target = 60
direction = "at_most"
gpus = 64
"""


@pytest.mark.slow
def test_scaling_and_time_to_train_are_judged_as_any_claim(results: Path, tmp_path: Path) -> None:
    rows_of("mlperf-v5.0", results, tmp_path / "out")
    path = tmp_path / "claims.toml"
    path.write_text(CLAIMS.replace("target = 1.1", "target = 1.0"))
    where = ("--claims", str(path), "--warehouse", str(tmp_path / "out" / "warehouse"))
    judged = {row["claim"]: row for row in json.loads(trackside("verify", *where, "--format", "json").stdout)}
    # 12 sequences in 20 s on 16 GPUs, in 10 s on 32: each GPU does as much
    assert judged["strong"]["value"] == pytest.approx(1.0)
    # 200 s x 1.5 to the target on 16 GPUs, 140 s on 32
    assert judged["by_time"]["value"] == pytest.approx(300 * 16 / (140 * 32))
    assert judged["capability"]["value"] == pytest.approx(300.0)
    assert judged["to_tokens"]["value"] == pytest.approx(60.0 + 40.0)  # six steps, an evaluation after the third
    assert "runs of 64 GPUs that reached a target" in judged["no_such_size"]["needed"]
    assert {name: row["verdict"] for name, row in judged.items()} == {
        "strong": "supported",
        "by_time": "refuted",
        "capability": "supported",
        "to_tokens": "refuted",
        "no_such_size": "undetermined",
    }
    assert judged["strong"]["beside"] == ["global batch 12 and 12"]


@pytest.mark.slow
def test_published_gpu_hours_of_ten_clusters_come_out(tmp_path: Path) -> None:
    rows = rows_of("elasticflow", public(TRACES), tmp_path / "out")
    assert len(rows) == 11
    for (quantity, _), row in rows.items():
        assert row["computed"] == pytest.approx(row["published"], abs=0.051), quantity
