"""MLPerf Training's logs: steps, start-up, evaluation and restarts as they were written."""

from __future__ import annotations

import itertools
import json
import random
import re
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest.runlog.formats import mlperf
from ingest.runlog.formats.mlperf import MODELS
from ingest.runlog.formats.registry import recognised
from ingest.runlog.translation import Findings, LogRequest
from tests.ingest.runlog.text import test_megatron as megatron
from tests.support.logs.foreign_logs import codes, events, read, steps
from tests.support.logs.mlperf import BEGIN_MS, BENCHMARK, MlperfRun
from tests.support.logs.run_logs import as_run_log, parse_runlog

if TYPE_CHECKING:
    from ingest.tables import Parsed

FACTS = {"cluster": "c", "run_id": "r", "n_gpus": 16, "dtype": "fp8+bf16"}


def parsed(text: str, **facts: object) -> Parsed:
    return parse_runlog(as_run_log(text.encode(), "result_0.txt", FACTS | facts))


def test_steps_have_their_numbers_times_and_tokens() -> None:
    rows = parsed(MlperfRun().text()).frames["steps"]
    begins = [(moment.timestamp() * 1000 - BEGIN_MS) / 1000 for moment in rows["ts"]]
    assert begins == [300, 320, 340, 400, 420, 440]
    assert rows["step"].to_list() == [1, 2, 3, 4, 5, 6]
    assert set(rows["tokens"]) == {12 * 8192}
    assert set(rows["duration_s"]) == {20.0}
    assert rows["loss"].to_list() == [pytest.approx(7.0 - step / 10) for step in range(1, 7)]


def test_start_up_evaluation_and_the_official_time_are_events() -> None:
    events = parsed(MlperfRun().text()).frames["run_events"].sort("ts")
    spans = [
        (
            row["kind"],
            row["ts"].timestamp() - BEGIN_MS / 1000,
            row["ended_at"] and (row["ended_at"] - row["ts"]).seconds,
        )
        for row in events.iter_rows(named=True)
    ]
    assert [(kind, round(begin), length) for kind, begin, length in spans] == [
        ("init", 0, 299),
        ("mlperf_run_start", 300, None),
        ("eval", 360, 40),
        ("eval", 460, 40),
        ("mlperf_run_stop", 500, None),
    ]


def test_facts_come_from_the_log_before_the_caller() -> None:
    session = parsed(MlperfRun().text(), gpu_model="H200", seq_len=1).frames["run_sessions"].row(0, named=True)
    assert (session["gpu_model"], session["seq_len"], session["n_gpus"]) == ("NVIDIA H100", 8192, 16)
    assert (session["params"], session["layers"], session["dtype"]) == (405_849_533_440, 126, "fp8+bf16")


@pytest.mark.parametrize("platform", ["1xSUBMISSION_PLATFORM_PLACEHOLDER", "XA_NB3I", "1xESC_N8A-E12"])
def test_a_platform_without_a_gpu_is_no_gpu_model(platform: str) -> None:
    result = read(MlperfRun(platform=platform).text(), facts=FACTS | {"gpu_model": "B300"})
    assert result.frames["run_sessions"]["gpu_model"].to_list() == ["B300"]
    assert "stated_not_taken" not in codes(result)


def test_a_stated_gpu_that_is_not_taken_is_named() -> None:
    result = read(MlperfRun(platform="MI355X").text(), facts=FACTS | {"gpu_model": "B300"})
    assert result.frames["run_sessions"]["gpu_model"].to_list() == ["MI355X"]
    assert [one.detail for one in result.warnings if one.code == "stated_not_taken"] == ["gpu_model"]


def test_a_log_without_a_run_id_gets_the_name_of_its_file() -> None:
    log = as_run_log(MlperfRun().text().encode(), "there/result_0.txt.gz", {"cluster": "c"})
    assert parse_runlog(log).frames["run_sessions"]["run_id"].to_list() == ["result_0"]


def test_a_cut_line_is_refused_and_the_rest_is_read() -> None:
    text = MlperfRun().text()
    lines = text.split("\n")
    at = next(number for number, line in enumerate(lines) if "reduced_train_loss" in line)
    lines[at] = lines[at][:80]
    result = read("\n".join(lines), facts=FACTS)
    assert result.rejects["line"].to_list() == [at + 1]
    assert result.rejects["raw"].to_list() == [lines[at]]
    assert result.frames["steps"]["loss"].is_null().to_list() == [True, *[False] * 5]  # samples count on


def test_a_log_written_twice_is_the_log_once() -> None:
    text = MlperfRun().text()
    once, twice = parsed(text), parsed(text + text)
    for name in ("run_sessions", "steps", "run_events"):
        assert twice.frames[name].equals(once.frames[name]), name


def test_a_restart_in_one_log_is_a_second_session() -> None:
    first, second = MlperfRun(steps=2, status="aborted"), MlperfRun(steps=4, begin_ms=BEGIN_MS + 3_600_000)
    result = parsed(first.text() + second.text())
    starts = [moment.timestamp() * 1000 - BEGIN_MS for moment in result.frames["run_sessions"]["started_at"]]
    assert starts == [0, 3_600_000]
    assert result.frames["steps"]["step"].to_list() == [1, 2, 1, 2, 3, 4]


def test_a_trial_behind_one_that_succeeded_is_another_run() -> None:
    trials = [MlperfRun(begin_ms=BEGIN_MS + 3_600_000 * n).text() for n in range(3)]
    result = parsed("".join(trials))
    assert result.frames["run_sessions"].sort("started_at")["run_id"].to_list() == ["r", "r-2", "r-3"]
    counts = result.frames["steps"].group_by("run_id").len().sort("run_id").rows()
    assert counts == [("r", 6), ("r-2", 6), ("r-3", 6)]


def test_a_loss_that_is_not_a_number_leaves_the_step() -> None:
    text = MlperfRun(steps=1).text().replace('"reduced_train_loss": 6.9', '"reduced_train_loss": NaN')
    steps = parsed(text).frames["steps"]
    assert steps.height == 1
    assert steps["loss"].to_list() == [None]


def entry(key: str, value: object, at: int = BEGIN_MS + 400_000, **metadata: object) -> str:
    fields = {"time_ms": at, "key": key, "value": value, "metadata": metadata}
    return f":::MLLOG {json.dumps(fields)}\n"


def test_losses_without_the_time_of_a_step_are_counted() -> None:
    losses = entry("train_loss", 6.5, samples_count=120) + entry("tracked_stats", {"train_loss": 6.4}, step=240)
    result = read(MlperfRun(steps=0).text() + losses + entry("tracked_stats", {"throughput": 6.4}, step=240))
    assert result.frames["steps"].is_empty()
    assert [(one.code, one.count, one.detail) for one in result.warnings if one.code == "step_times_unknown"] == [
        ("step_times_unknown", 3, "throughput, train_loss")
    ]


def test_means_over_steps_are_no_steps_without_a_time() -> None:
    assert "step_times_unknown" not in {one.code for one in read(MlperfRun().text()).warnings}
    untimed = read(MlperfRun().text() + entry("tracked_stats", {"reduced_train_loss": 6.4}, samples_count=120))
    assert [one.count for one in untimed.warnings if one.code == "step_times_unknown"] == [1]
    assert untimed.frames["steps"].height == 6


def every(n: int, *, numbers: bool) -> str:
    """A log of nine steps of 2 s in which every n-th is logged, with the step beside the samples."""
    run = MlperfRun(steps=0, step_s=2.0)
    begin = BEGIN_MS + 300_000
    lines = [entry("block_start", None, at=begin, samples_count=108, step=0)]
    for step in range(n, 10, n):
        stats = {"train_step_time": 1.9, "reduced_train_loss": 6.5}
        edge = {"step": float(step - 1)} if numbers else {}
        lines.append(entry("tracked_stats", stats, at=begin + 2_000 * step, samples_count=12.0 * step, **edge))
    lines.append(entry("block_stop", None, at=begin + 18_000, samples_count=108, step=9))
    return run.text() + "".join(lines)


@pytest.mark.parametrize("numbers", [True, False])
def test_the_number_of_a_step_is_that_of_its_samples(*, numbers: bool) -> None:
    steps = parsed(every(1, numbers=numbers)).frames["steps"]
    assert steps["step"].to_list() == list(range(1, 10))
    assert set(steps["duration_s"]) == {1.9}


def test_an_entry_of_every_nth_step_stands_for_them() -> None:
    result = read(every(4, numbers=True), facts=FACTS)
    steps = result.frames["steps"]
    assert steps["step"].to_list() == list(range(1, 10))
    assert steps["loss"].drop_nulls().to_list() == [6.5, 6.5]
    ends = [(ts.timestamp() - BEGIN_MS / 1000 - 300) + s for ts, s in steps.select("ts", "duration_s").rows()]
    assert [ends[3], ends[7], ends[8]] == pytest.approx([8, 16, 18])
    assert steps["ts"].is_sorted()
    assert [one.count for one in result.warnings if one.code == "steps_averaged"] == [8]


def test_a_resumed_log_begins_with_one_step() -> None:
    text = MlperfRun(steps=0).text() + entry(
        "tracked_stats", {"train_step_time": 1.0, "reduced_train_loss": 6.5}, samples_count=36_000.0
    )
    assert parsed(text).frames["steps"]["step"].to_list() == [3000]


def counted_before(every: int = 2) -> str:
    """As v6.0 logs: an entry of every n-th of 12 steps of 2 s counts the samples before it; an evaluation after 6."""
    lines, at = [MlperfRun(steps=0).text()], 300_000
    for begin in (0, 6):
        lines.append(entry("block_start", None, at=BEGIN_MS + at, samples_count=12 * begin, step=begin))
        for before in range(begin, begin + 6):
            at += 2_000
            values = {"train_step_time": 2.0, "reduced_train_loss": 7.0 - before}
            if (before - begin) % every == 0:
                lines.append(entry("tracked_stats", values, at=BEGIN_MS + at, samples_count=12 * before))
        lines.append(entry("block_stop", None, at=BEGIN_MS + at, samples_count=12 * (begin + 6), step=begin + 6))
        at += 9_000
    return "".join(lines)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_samples_before_a_step_number_the_one_behind_them(every: int) -> None:
    result = read(counted_before(every), facts=FACTS)
    steps = result.frames["steps"]
    assert steps["step"].to_list() == list(range(1, 13))
    assert (steps["duration_s"] - 2.0).abs().max() == pytest.approx(0.0)
    losses = dict(steps.filter(steps["loss"].is_not_null()).select("step", "loss").iter_rows())
    assert losses == {before + 1: 7.0 - before for before in range(0, 12, every)}
    assert result.rows_duplicate == 0


@pytest.mark.parametrize("text", [MlperfRun().text(), counted_before()], ids=["after", "before"])
@pytest.mark.parametrize("late_ms", [0, 3])
def test_entries_printed_twice_are_no_steps_run_again(text: str, late_ms: int) -> None:
    doubled = ""
    for line in text.splitlines(keepends=True):
        again = line
        if late_ms and line.startswith(mlperf.MARK.decode()):
            fields = json.loads(line[len(mlperf.MARK) :])
            again = f":::MLLOG {json.dumps(fields | {'time_ms': fields['time_ms'] + late_ms})}\n"
        doubled += line + again
    once, twice = read(text, facts=FACTS), read(doubled, facts=FACTS)
    assert twice.frames["steps"].select("step", "loss").equals(once.frames["steps"].select("step", "loss"))
    assert twice.frames["run_sessions"].height == 1
    assert twice.rows_duplicate > 0


def blocks(edge: str, size: int) -> str:
    """Two blocks of ten steps of 3 s with an evaluation between them, of which no step is logged."""
    begin, lines = BEGIN_MS + 300_000, []
    for block in (0, 1):
        at = begin + block * 50_000
        lines.append(entry("block_start", None, at=at, **{edge: 10 * size * block}))
        lines.append(entry("tracked_stats", {"throughput": 4.0, "train_loss": 5.5}, at=at + 30_000, step=120))
        lines.append(entry("block_stop", None, at=at + 30_000, **{edge: 10 * size * (block + 1)}))
    return MlperfRun(steps=0).text() + "".join(lines)


@pytest.mark.parametrize(("edge", "size"), [("samples_count", 12), ("step", 1)])
def test_steps_of_a_block_share_its_time(edge: str, size: int) -> None:
    result = read(blocks(edge, size), facts=FACTS)
    steps = result.frames["steps"]
    assert steps["step"].to_list() == list(range(1, 21))
    begins = [ts.timestamp() - BEGIN_MS / 1000 - 300 for ts in steps["ts"]]
    assert [begins[0], begins[9], begins[10]] == pytest.approx([0, 27, 50])
    assert (set(steps["duration_s"]), set(steps["tokens"])) == ({3.0}, {12 * 8192})
    assert steps["loss"].to_list()[9] == 5.5
    assert "step_times_unknown" not in {one.code for one in result.warnings}


def test_blocks_that_do_not_count_steps_are_named() -> None:
    result = read(blocks("first_epoch_num", 1), facts=FACTS)
    assert result.frames["steps"].is_empty()
    assert [one.detail for one in result.warnings if one.code == "step_times_unknown"] == [
        "block_stop, throughput, train_loss"
    ]


def test_lines_with_other_output_before_the_mark_are_read() -> None:
    text = "\n".join(f"17: {line}" for line in MlperfRun().text().splitlines())
    assert parsed(text).frames["steps"].height == 6


@pytest.mark.parametrize("chunk", [1 << 10, 100_003, 1 << 24])
def test_lines_far_behind_other_output_are_read(chunk: int) -> None:
    before = "0: module.decoder.layers.0.self_attention.linear_qkv.weight\n" * 4_000
    result = read(before + MlperfRun().text(), facts=FACTS, chunk=chunk)
    assert result.frames["steps"].height == 6
    assert result.rejects.is_empty()


@pytest.mark.parametrize("chunk", [1 << 10, 1 << 24])
def test_a_log_with_steps_beside_a_line_is_of_theirs(chunk: int) -> None:
    text = "".join(megatron.line(n, f"08:{n // 30:02d}:{2 * n % 60:02d}") for n in range(1, 400))
    assert read(text + MlperfRun().text(), chunk=chunk).frames["steps"].height == 399
    behind = "loading\n" * 20_000 + MlperfRun(steps=0).text() + text
    assert read(behind, chunk=chunk).frames["steps"].height == 399


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_log_in_utf_16_is_read(encoding: str) -> None:
    assert read(MlperfRun().text().encode(encoding), facts=FACTS).frames["steps"].height == 6


def test_colours_around_lines_are_passed_over() -> None:
    text = "\n".join(f"\x1b[36m{line}\x1b[0m" for line in MlperfRun().text().splitlines())
    assert parsed(text).frames["steps"].height == 6


@pytest.mark.parametrize("head", [b'{"type":"run","v":1}\n', b"", b"JobID|State\n"])
def test_other_files_are_no_mlperf_log(head: bytes) -> None:
    assert recognised(head) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
KEYS = (
    "init_start",
    "init_stop",
    "run_start",
    "run_stop",
    "block_start",
    "block_stop",
    "eval_start",
    "eval_stop",
    "tracked_stats",
    "cache_clear",
)
FACTS_OF_LOG = ("global_batch_size", "max_sequence_length", "submission_platform", "submission_benchmark")
STATS = st.fixed_dictionaries({"train_step_time": VALUES, "reduced_train_loss": VALUES})


@st.composite
def entries(draw: st.DrawFn) -> str:
    """A line as damaged software may write it."""
    entry = {
        "time_ms": draw(st.floats() | st.integers(-5, 4_000_000_000_000) | VALUES),
        "key": draw(st.sampled_from(KEYS + FACTS_OF_LOG) | st.text(max_size=5)),
        "value": draw(STATS | VALUES),
        "metadata": draw(st.fixed_dictionaries({"step": VALUES, "samples_count": VALUES}) | VALUES),
    }
    line = ":::MLLOG " + json.dumps(entry)
    return line[: draw(st.integers(0, len(line)))] if draw(st.booleans()) else line


def test_lines_in_any_order_are_read_by_their_times() -> None:
    """Ranks and collectors mix lines; each has its own time."""
    whole = MlperfRun(steps=9).text()
    lines = whole.splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    mixed, plain = parsed("".join(lines)), parsed(whole)
    assert steps(mixed) == steps(plain)
    assert events(mixed) == events(plain)
    assert mixed.rejects.is_empty()


def test_an_entry_that_cannot_be_used_is_refused_by_its_own_line() -> None:
    entry = ':::MLLOG {{"time_ms": {}, "key": "{}", "value": {}, "metadata": {{"samples_count": 9}}}}\n'
    step = '{"train_step_time": 1.0, "reduced_train_loss": 1.0}'
    late = entry.format(BEGIN_MS + 90_000_000, "tracked_stats", step)
    text = late + MlperfRun().text() + entry.format(BEGIN_MS + 80_000_000, "global_batch_size", "5e-324")
    (refused,) = read(text, facts=FACTS).rejects.select("line", "reason", "raw").rows()
    assert refused[0] == 1
    assert refused[1].startswith("a number that cannot be used: ")
    assert "reduced_train_loss" in refused[2]


@pytest.mark.slow
@given(st.lists(entries(), min_size=1, max_size=6))
@example([':::MLLOG {"time_ms": 1.7e12, "key": "global_batch_size", "value": 5e-324}',
          ':::MLLOG {"time_ms": 1.7e12, "key": "tracked_stats", "metadata": {"step": 9.0}, "value": '
          '{"train_step_time": 1.0, "reduced_train_loss": 1.0}}'])  # fmt: skip
def test_no_line_stops_a_log_and_none_vanishes(lines: list[str]) -> None:
    text = MlperfRun(steps=1).text() + "\n".join(lines) + "\n"
    result = parsed(text)
    assert result.frames["steps"].height >= 1
    assert result.rows_read == result.rows_loaded + result.rows_duplicate + result.rows_skipped + result.rows_rejected


def test_the_sizes_of_llama31_8b_are_those_of_its_matrices() -> None:
    """Llama 3.1 (arXiv 2407.21783, table 3): 32 layers of 4,096, 8 heads of keys and values, 14,336 in the MLP."""
    one = MODELS["llama31_8b"]
    attention = 2 * one["hidden"] ** 2 + 2 * one["hidden"] * one["kv_heads"] * one["head_dim"]
    layer = attention + 3 * one["hidden"] * one["ffn_hidden"] + 2 * one["hidden"]
    assert one["params"] == 2 * one["vocab"] * one["hidden"] + one["layers"] * layer + one["hidden"]
    session = parsed(MlperfRun().text().replace(BENCHMARK, "llama31_8b")).frames["run_sessions"].row(0, named=True)
    assert (session["params"], session["heads"], session["recipe"]) == (one["params"], 32, "llama31_8b")


def test_entries_that_stand_for_too_many_steps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlperf, "MOST_FILLED", 25)
    entry = ':::MLLOG {{"time_ms": {}, "key": "{}", "value": {}, "metadata": {{"samples_count": {}}}}}\n'
    text = entry.format(BEGIN_MS, "run_start", "null", 0) + entry.format(BEGIN_MS, "global_batch_size", 1, 0)
    values = '{"train_step_time": 0.1, "reduced_train_loss": 2.5}'
    for n in range(1, 5):
        text += entry.format(BEGIN_MS + 2_000 * n, "tracked_stats", values, 10 * n)
    result = read(text, facts=FACTS)
    assert result.frames["steps"]["step"].to_list() == list(range(1, 21))
    assert result.rejects["line"].to_list() == [5, 6]
    assert "it stands for 10 steps" in result.rejects["reason"][0]
    assert [raw.partition(" {")[0] for raw in result.rejects["raw"]] == [":::MLLOG"] * 2
    assert f'"time_ms":{BEGIN_MS + 6_000}' in result.rejects["raw"][0]


@pytest.mark.parametrize("n_before", [0, 2])
@pytest.mark.parametrize("samples", ["9" * 30, "1e300", "99999999999999"])
def test_a_step_far_ahead_is_refused_alone(n_before: int, samples: str) -> None:
    """What comes behind it is no repetition, and stands for its step, too."""
    entry = ':::MLLOG {{"time_ms": {}, "key": "{}", "value": {}, "metadata": {{"samples_count": {}}}}}\n'
    text = entry.format(BEGIN_MS, "run_start", "null", 0) + entry.format(BEGIN_MS, "global_batch_size", 1, 0)
    values = '{"train_step_time": 2.0, "reduced_train_loss": 2.5}'
    for n in range(1, 6):
        count = samples if n == n_before + 1 else n
        text += entry.format(BEGIN_MS + 2_000 * n, "tracked_stats", values, count)
    result = read(text, facts=FACTS)
    assert result.frames["steps"]["step"].to_list() == [1, 2, 3, 4, 5]
    assert result.rejects["line"].to_list() == [3 + n_before]
    assert result.rows_duplicate == 0


@pytest.mark.parametrize("off_ms", [-3 * 86_400_000, 400 * 86_400_000])
@pytest.mark.parametrize("n_ranks", [1, 2])
def test_a_line_of_a_wrong_clock_is_refused(off_ms: int, n_ranks: int) -> None:
    """One line, or all lines of another rank but its first one."""
    lines = MlperfRun().text().splitlines(keepends=True)
    wrong = [re.sub(r'"time_ms": (\d+)', lambda time: f'"time_ms": {int(time[1]) + off_ms}', line) for line in lines]
    every = [lines[0]]
    for number, line in enumerate(lines[1:], 1):
        every += [wrong[number], line] if n_ranks == 2 or number == 3 else [line]
    result, whole = read("".join(every), facts=FACTS), read("".join(lines), facts=FACTS)
    for name in ("steps", "run_events"):
        assert result.frames[name].drop("line", strict=False).equals(whole.frames[name].drop("line", strict=False))
    assert result.rejects.height == "".join(every).count("MLLOG") - "".join(lines).count("MLLOG") > 0
    assert result.rejects["reason"].str.contains("more than a day").all()


def test_steps_that_an_entry_stands_for_wait_unmade() -> None:
    """A line that stands for ten thousand steps takes the memory of one until these are read."""
    entry = '{{"time_ms": {}, "key": "tracked_stats", "value": {}, "metadata": {{"samples_count": {}}}}}'
    values = '{"train_step_time": 0.1, "reduced_train_loss": 2.5}'
    lines = [f':::MLLOG {{"time_ms": {BEGIN_MS}, "key": "global_batch_size", "value": 1}}']
    lines += [":::MLLOG " + entry.format(BEGIN_MS + n * 10**6, values, n * 10_000 + 1) for n in range(20)]
    tracemalloc.start()
    chunks = mlperf.read(["\n".join(lines).encode() + b"\n"], LogRequest(FACTS, file="r.txt"), Findings())
    assert len(list(itertools.islice(chunks, 4))) == 4
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # all 190,000 lines are 14 MB
