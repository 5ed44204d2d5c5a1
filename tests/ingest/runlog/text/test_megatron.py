"""Megatron-LM's stdout: lines of several iterations, checkpoints without a time, restarts, other ranks."""

from __future__ import annotations

import itertools

import pytest

from ingest.errors import TimeZoneError, UntimedError
from tests.support.logs.foreign_logs import DAY, codes, events, read, starts, steps

HEAD = """\
using world size: 8, data-parallel size: 4, context-parallel size: 1, tensor-model-parallel size: 2
------------------------ arguments ------------------------
  global_batch_size ............................... 256
  seq_length ...................................... 4096
  world_size ...................................... 8
-------------------- end of arguments ---------------------
[after model, optimizer, and learning rate scheduler are built] datetime: 2026-10-01 08:00:00
"""
LOADED = "  successfully loaded checkpoint from /ckpt [ t 1/2, p 1/1 ] at iteration {}\n"


def line(step: int, stamp: str, *, ms: float = 2000.0, loss: float = 2.5) -> str:
    """As of 2024 and later: with a stamp, and with the throughput."""
    return (
        f" [2026-10-01 {stamp}] iteration {step:8d}/    1000 | consumed samples: {256 * step:12d} | "
        f"elapsed time per iteration (ms): {ms:.1f} | throughput per GPU (TFLOP/s/GPU): 412.3 | "
        f"learning rate: 1.200000E-05 | global batch size:   256 | lm loss: {loss:.6E} | loss scale: 1.0 | "
        "grad norm: 2.345 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def old_line(step: int, *, ms: float = 2000.0) -> str:
    """As of 2020 to 2023: no stamp."""
    return (
        f" iteration {step:8d}/    1000 | consumed samples: {256 * step:12d} | elapsed time per iteration (ms): "
        f"{ms:.1f} | learning rate: 1.507E-05 | global batch size:   256 | lm loss: 2.373574E+00 | loss scale: 1.0 | "
        "grad norm: 0.811 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def save(step: int) -> str:
    return (
        f"saving checkpoint at iteration {step:7d} to /ckpt in torch_dist format\n"
        f"  successfully saved checkpoint from iteration {step:7d} to /ckpt [ t 1/2, p 1/1 ]\n"
    )


def test_a_line_of_two_iterations_is_two_steps() -> None:
    parsed = read(HEAD + line(2, "08:00:30") + line(4, "08:00:34", ms=1500, loss=2.25))
    assert steps(parsed) == [(1, 28826, 2.0), (2, 28828, 2.0), (3, 28831, 1.5), (4, 28832.5, 1.5)]
    assert parsed.frames["steps"]["loss"].to_list() == [None, 2.5, None, 2.25]
    assert set(parsed.frames["steps"]["tokens"]) == {256 * 4096}
    session = parsed.frames["run_sessions"].row(0, named=True)
    assert (session["run_id"], session["n_gpus"], session["seq_len"]) == ("train", 8, 4096)
    assert codes(parsed) == ["steps_averaged"]


def test_abbreviated_tokens_are_no_token_count() -> None:
    lines = [(1, "08:00:30", "1.05M"), (2, "08:00:32", "2M"), (3, "08:00:34", "3.146 M")]
    text = "".join(line(n, at).replace("| elapsed", f"| consumed tokens: {seen} | elapsed") for n, at, seen in lines)
    assert read(HEAD + text).frames["steps"]["tokens"].to_list() == [256 * 4096] * 3


@pytest.mark.parametrize(
    "form", ["[{}][rank-7/8][INFO ] : ", "[\x1b[32m{}\x1b[0m][\x1b[36mrank-7/8\x1b[0m] ", "I{}.0 12 t.py:9] "]
)
def test_dates_without_dashes_are_stamps(form: str) -> None:
    lines = ((1, "08:00:30"), (2, "08:00:32"), (3, "08:20:34"))  # a save, or a stall, is no part of a step
    text = "".join(form.format(f"20261001 {at}") + old_line(n).lstrip() for n, at in lines)
    assert steps(read(text)) == [(1, 28828, 2.0), (2, 28830, 2.0), (3, 30032, 2.0)]


def test_first_line_without_a_start_is_one_step() -> None:
    parsed = read(line(20, "08:00:30") + line(22, "08:00:34"))
    assert [step for step, _, _ in steps(parsed)] == [20, 21, 22]


def test_whole_second_stamps_do_not_overlap_steps() -> None:
    text = HEAD + "".join(line(n, f"08:00:{30 + (n * 300) // 1000:02d}", ms=300) for n in range(1, 12))
    begins = [begin for _, begin, _ in steps(read(text)) if begin is not None]
    assert len(begins) == 11
    assert all(0.25 < after - before < 1 for before, after in itertools.pairwise(begins))


def test_a_checkpoint_without_a_time_lies_between_the_steps() -> None:
    parsed = read(HEAD + line(1, "08:00:30") + save(1) + line(2, "08:00:42"))
    assert events(parsed) == [("checkpoint_save", 1, 28830, 28840)]
    assert parsed.frames["run_events"]["durable_at"].dt.second().to_list() == [40]
    assert steps(parsed) == [(1, 28828, 2.0), (2, 28840, 2.0)]


def test_a_checkpoint_that_held_nothing_up_took_no_time() -> None:
    """Both steps of a line fill the time since the line before, so nothing is left for the save between them."""
    parsed = read(HEAD + line(2, "08:00:30") + save(2) + line(4, "08:00:34") + line(6, "08:00:38"))
    assert events(parsed) == [("checkpoint_save", 2, 28830, 28830)]
    assert parsed.frames["run_events"]["durable_at"].dt.second().to_list() == [30]
    assert steps(parsed) == [(n, 28826 + 2 * n - 2, 2.0) for n in range(1, 7)]


def test_a_checkpoint_between_steps_without_times_has_no_end() -> None:
    parsed = read(HEAD + old_line(1) + save(1) + old_line(2) + old_line(3))
    assert events(parsed) == [("checkpoint_save", 1, 28802, None)]
    assert parsed.frames["run_events"]["durable_at"].dt.second().to_list() == [2]


def test_a_checkpoint_at_the_end_has_no_end() -> None:
    parsed = read(HEAD + line(1, "08:00:30") + save(1))
    assert events(parsed) == [("checkpoint_save", 1, 28830, None)]
    assert parsed.frames["run_events"]["durable_at"].to_list() == [None]


def test_a_resumed_run_is_two_sessions() -> None:
    first = HEAD + line(2, "08:00:30") + save(2) + line(4, "08:00:40") + line(6, "08:00:44")
    second = HEAD.replace("08:00:00", "08:10:00") + LOADED.format(2) + line(4, "08:10:30")
    parsed = read(first + second)
    assert starts(parsed) == [28800, 29400]
    assert [step for step, _, _ in steps(parsed)] == [1, 2, 3, 4, 5, 6, 3, 4]
    assert ("checkpoint_load", 2, 29400, None) in events(parsed)


def test_a_start_without_a_time_or_a_load_invents_no_steps() -> None:
    """Six steps do not fit between the last line of the process before and the first of this one."""
    text = HEAD + "".join(line(n, f"08:00:{30 + 2 * n}") for n in (1, 2, 3, 4, 5))
    text += "> initializing torch distributed ...\n" + line(6, "08:00:44") + line(7, "08:00:46")
    assert [step for step, _, _ in steps(read(text))] == [1, 2, 3, 4, 5, 6, 7]


def test_old_lines_follow_the_last_time_in_the_log() -> None:
    parsed = read(HEAD + old_line(1) + old_line(2, ms=1000))
    assert steps(parsed) == [(1, 28800, 2.0), (2, 28802, 1.0)]
    assert "times_reckoned" in codes(parsed)


def test_lines_without_times_need_begin() -> None:
    text = old_line(7) + old_line(8)
    with pytest.raises(UntimedError, match=r"steps \(7 to 8\) have no times.*\n.*--begin"):
        read(text)
    assert steps(read(text, begin=DAY)) == [(7, 0, 2.0), (8, 2, 2.0)]


def test_local_times_need_a_zone() -> None:
    with pytest.raises(TimeZoneError, match=r"train\.log line 7: its time is a local time .*08:00:00"):
        read(HEAD + line(2, "08:00:30"), timezone=None)
    assert steps(read(line(2, "08:00:30"), timezone="Europe/Berlin"))[0][1] == 28828 - 7200


@pytest.mark.parametrize("prefix", ["0: ", "[rank7]:", "[default7]:", "[1,7]<stdout>:", "node01: "])
def test_prefixes_of_launchers_change_nothing(prefix: str) -> None:
    text = HEAD + line(2, "08:00:30") + line(4, "08:00:34")
    prefixed = "".join(prefix + each + "\n" for each in text.splitlines())
    assert steps(read(prefixed)) == steps(read(text))


def test_steps_of_other_ranks_count_once() -> None:
    text = "".join(f"{rank}: {line(step, f'08:00:{30 + 2 * step}')}" for step in (1, 2, 3) for rank in (3, 0, 1))
    parsed = read(text)
    assert [step for step, _, _ in steps(parsed)] == [1, 2, 3]
    assert parsed.rows_duplicate == 6
    assert parsed.rows_read == parsed.rows_loaded + parsed.rows_duplicate + parsed.rows_rejected


def test_a_damaged_line_is_refused_with_its_number() -> None:
    cut = line(4, "08:00:34")[:120] + "\n"
    parsed = read(HEAD + line(2, "08:00:30") + "loading data\n" + cut + line(6, "08:00:38"))
    assert parsed.rejects.select("line", "reason").rows() == [
        (10, "damaged line of Megatron-LM and Megatron-Bridge (step): it does not end as one")
    ]
    assert [step for step, _, _ in steps(parsed)] == [1, 2, 3, 4, 5, 6]  # the line of 6 stands for 3 to 6


def test_a_repeated_autumn_hour_follows_the_order_of_lines() -> None:
    text = "".join(
        line(n, "02:59:00" if n == 1 else f"02:0{n}:00").replace("2026-10-01", "2026-10-25") for n in range(1, 4)
    )
    hours = [ts.strftime("%H:%M") for ts in read(text, timezone="Europe/Berlin").frames["steps"]["ts"]]
    assert hours == ["00:58", "01:01", "01:02"]


def test_a_line_without_a_time_keeps_the_second_hour() -> None:
    """In the hour that occurs twice it put the lines behind it back into the first one."""
    stamps = ["02:50:00", "02:10:00", "02:20:00"]
    lines = [line(n, stamp).replace("2026-10-01", "2026-10-25") for n, stamp in enumerate(stamps, 1)]
    save = "saving checkpoint at iteration       2 to /ckpt in torch format\n"
    parsed = read("".join([*lines[:2], save, lines[2]]), timezone="Europe/Berlin")
    hours = [ts.strftime("%H:%M") for ts in parsed.frames["steps"]["ts"]]
    assert hours == ["00:49", "01:09", "01:19"]


def test_first_line_of_several_iterations_has_all_of_them() -> None:
    """A start without a time, and no line about a checkpoint: the run began at iteration 1."""
    parsed = read("> initializing torch distributed ...\n" + line(10, "08:00:40") + line(20, "08:01:00"))
    assert [step for step, _, _ in steps(parsed)] == list(range(1, 21))


def bloom(step: int) -> str:
    """A step as BigScience's Megatron-DeepSpeed printed it: in seconds, without a time."""
    return (
        f"[default7]: iteration {step:8d}/  115311 | consumed samples: {2048 * step:12d} | consumed tokens: "
        f"{2048 * 2048 * step:12d} | elapsed time per iteration (s): 100.00 | learning rate: 5.969E-05 | global batch "
        "size:  2048 | lm loss: 2.463556E+00 | grad norm: 0.174 | num zeros: 0.0 | number of skipped iterations:   0 | "
        "number of nan iterations:   0 | samples per second: 20.48 | TFLOPs: 149.02 |\n"
    )


def deepspeed(step: int, at: str) -> str:
    where = "[default0]:[2026-10-01 {},000] [INFO] [logging.py:69:log_dist] [Rank 0]"
    return f"{where.format(at)} step={step}, skipped=0, lr=[6e-05], mom=[(0.9, 0.95)]\n"


def test_bigscience_steps_have_the_times_of_deepspeeds_lines() -> None:
    text = "[default0]:  seq_length ...................................... 2048\n" + deepspeed(0, "00:10:00")
    text += "[default0]:  successfully loaded checkpoint from /ckpt at iteration 90\n"
    text += "".join(map(bloom, (91, 92))) + deepspeed(93, "00:15:10") + bloom(93)
    text += "[default0]:saving checkpoint at iteration      93 to /ckpt\n"
    text += "[default0]:  successfully saved checkpoint at iteration      93 to /ckpt\n" + bloom(94)
    parsed = read(text)
    assert steps(parsed) == [(91, 600.0, 100.0), (92, 700.0, 100.0), (93, 810.0, 100.0), (94, 910.0, 100.0)]
    assert parsed.rows_rejected == 0
    assert set(parsed.frames["steps"]["tokens"]) == {2048 * 2048}
    assert parsed.frames["run_sessions"]["printed_tflops"].to_list() == [pytest.approx(149.02)]
    assert [kind for kind, _, _, _ in events(parsed)] == ["checkpoint_load", "checkpoint_save"]


def test_a_load_without_a_time_lies_before_its_first_step() -> None:
    again = (
        "using world size: 8, data-parallel size: 8\n successfully loaded checkpoint from /c [ t 1/1 ] at iteration 1\n"
    )
    parsed = read(HEAD + line(1, "08:00:10") + line(2, "08:00:12") + again + line(2, "08:10:12"))
    assert steps(parsed)[2] == (2, 29410, 2.0)
    assert events(parsed) == [("checkpoint_load", 1, 29410, None)]
