"""Text logs as they really come: cut, doubled, interleaved, out of order, and mostly of something else."""

from __future__ import annotations

import random
import re
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import InputError, UnrecognisedInputError, UntimedError
from ingest.runlog.formats.text import blocks
from ingest.runlog.lines import CUT
from tests.ingest.runlog.text import test_megatron as megatron
from tests.ingest.runlog.text import test_torchtitan as titan
from tests.ingest.runlog.text.test_mutations import BEGUN, LINES
from tests.support.logs.foreign_logs import DAY, read, steps

if TYPE_CHECKING:
    from ingest.tables import Parsed

MEGATRON = megatron.HEAD + "".join(megatron.line(2 * n, f"08:00:{10 + 4 * n}") for n in range(1, 8))
TITAN = titan.FRESH + "".join(titan.line(n, f"08:00:{20 + 4 * n},000") for n in range(1, 8))
LOGS = {"megatron": MEGATRON, "torchtitan": TITAN}


class Whole(dict[str, list[tuple[int, float | None, float | None]]]):
    """The steps of each whole log, read when a test needs them: every worker imports this module."""

    def __missing__(self, name: str) -> list[tuple[int, float | None, float | None]]:
        self[name] = steps(read(LOGS[name]))
        return self[name]


WHOLE = Whole()


def adds_up(parsed: Parsed) -> bool:
    counted = parsed.rows_loaded + parsed.rows_duplicate + parsed.rows_skipped + parsed.rows_rejected
    return parsed.rows_read == counted


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
@settings(max_examples=12, deadline=None)
@given(at=st.integers(1, 2_000))
def test_cut_logs_have_the_steps_of_whole_lines(name: str, at: int) -> None:
    whole = WHOLE[name]
    try:
        parsed = read(LOGS[name][:at])
    except (UnrecognisedInputError, UntimedError):
        return
    assert adds_up(parsed)
    assert steps(parsed) == whole[: len(steps(parsed))]


NANOGPT = "".join(f"iter {n}: loss {3 - n / 9:.4f}, time 1500.00ms, mfu 30.00%\n" for n in range(8, 12))


@pytest.mark.slow
@pytest.mark.parametrize("block", [1 << 20, 7])
@pytest.mark.parametrize("text", [*LOGS.values(), NANOGPT], ids=[*LOGS, "nanogpt"])
def test_step_that_is_cut_anywhere_is_refused_as_cut(text: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As copytruncate leaves it: also where so little is left of its line that no pattern knows it."""
    monkeypatch.setattr(blocks, "BLOCK", block)
    begin = text.rindex("\n", 0, -1) + 1
    whole, before = (steps(read(part, begin=DAY)) for part in (text, text[:begin]))
    for at in range(begin, len(text), 7 if block > 7 else 41):
        parsed = read(text[:at], begin=DAY)
        assert steps(parsed) in (whole, before)
        is_cut = text[begin:at].strip() != "" and steps(parsed) == before  # a blank may begin anything
        assert parsed.rejects["reason"].to_list() == [CUT] * is_cut
        assert adds_up(parsed)


@pytest.mark.parametrize("end", ["done", "saving checkpoint to out", "iteration 5: no step", "12", "$ "])
def test_last_line_of_another_kind_is_no_cut_step(end: str) -> None:
    assert read(NANOGPT + end, begin=DAY).rejects.is_empty()


def test_both_halves_of_a_copied_and_emptied_log_lose_one_step() -> None:
    at = NANOGPT.index("iter 10") + 3
    halves = [read(part, begin=DAY) for part in (NANOGPT[:at], NANOGPT[at:])]
    assert [parsed.frames["steps"]["step"].to_list() for parsed in halves] == [[8, 9], [11]]
    assert [parsed.rejects["reason"].to_list() for parsed in halves] == [[CUT], []]


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
@settings(max_examples=12, deadline=None)
@given(twice=st.sets(st.integers(0, 12)))
def test_doubled_lines_count_once(name: str, twice: set[int]) -> None:
    lines = LOGS[name].splitlines(keepends=True)
    text = "".join(line * (2 if n in twice else 1) for n, line in enumerate(lines))
    parsed = read(text)
    assert steps(parsed) == WHOLE[name]
    assert adds_up(parsed)


@pytest.mark.parametrize("name", LOGS)
def test_a_log_behind_itself_is_the_log_once(name: str) -> None:
    assert steps(read(LOGS[name] * 2)) == WHOLE[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1_000))
def test_steps_out_of_order_are_put_in_order(name: str, seed: int) -> None:
    lines = LOGS[name].splitlines(keepends=True)
    head, tail = lines[:-7], lines[-7:]
    random.Random(seed).shuffle(tail)
    assert steps(read("".join(head + tail))) == WHOLE[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
@settings(max_examples=12, deadline=None)
@given(chunk=st.integers(1, 5_000), block=st.integers(1, 3_000))
def test_chunks_and_blocks_make_no_difference(name: str, chunk: int, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", block)
        assert steps(read(LOGS[name], chunk=chunk)) == WHOLE[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
@settings(max_examples=12, deadline=None)
@given(damage=st.dictionaries(st.integers(0, 12), st.integers(0, 200)))
def test_no_damaged_line_stops_a_log_or_vanishes(name: str, damage: dict[int, int]) -> None:
    whole = LOGS[name].splitlines()
    lines = [line[: damage.get(n, len(line))] + "\n" for n, line in enumerate(whole)]
    try:
        parsed = read("".join(lines))
    except (UnrecognisedInputError, UntimedError):
        return
    assert adds_up(parsed)
    own = {row["line"] for row in parsed.rejects.iter_rows(named=True)}
    assert own <= {n + 1 for n in damage}


@pytest.mark.parametrize(
    ("name", "number", "n_rejected"),
    [
        ("nanogpt", "iter 5:", 1),
        ("automodel", "step 5 ", 1),
        ("modded-nanogpt", "train_time:20000ms", 1),
        ("paddlenlp", "samples_per_second: 64.0", 0),
    ],
)
@pytest.mark.parametrize("digits", ["9" * 19, "9" * 23, "9" * 400])
def test_impossible_numbers_lose_their_own_line(name: str, number: str, n_rejected: int, digits: str) -> None:
    """The line behind a step that is rejected stands for both."""
    whole = "".join(LINES[name])
    assert number in whole
    text = whole.replace(number, re.sub(r"[\d.]+", digits, number, count=1), 1)
    parsed = read(text, begin=DAY if name in BEGUN else None)
    assert parsed.frames["steps"]["step"].to_list() == list(range(1, len(LINES[name]) + 1))
    assert parsed.rows_rejected == n_rejected
    assert parsed.rejects["raw"].str.contains(digits).all()


def test_other_output_is_not_rejected() -> None:
    noise = "".join(f"\r{n}%|##  | {n}/100" for n in range(100)) + "\nNCCL INFO Channel 00/32 : 0 1 2\n\x1b[0m\n"
    parsed = read(noise + noise.join(MEGATRON.splitlines(keepends=True)) + noise)
    assert steps(parsed) == WHOLE["megatron"]
    assert parsed.rows_rejected == 0


@pytest.mark.slow
def test_memory_depends_on_steps_not_on_other_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 1 << 16)
    peaks = []
    for n_lines in (2_000, 40_000):
        text = (MEGATRON + "NCCL INFO Channel 00/32 : 0 1 2 3 4 5 6 7\n" * n_lines).encode()
        tracemalloc.start()
        assert len(steps(read(text, chunk=1 << 14))) == 14
        peaks.append(tracemalloc.get_traced_memory()[1] - 2 * len(text))
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + (1 << 20)


@pytest.mark.parametrize("between", [0, 3, 400])
def test_pieces_without_a_word_keep_the_numbers_of_lines(between: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps far apart: what lies between them is not even split into lines."""
    monkeypatch.setattr(blocks, "BLOCK", 1 << 15)
    monkeypatch.setattr(blocks, "PIECE", 1 << 11)
    noise = "NCCL INFO Channel 00/32 : 0 1 2 3 via P2P\nKanäle ohne Wort\n" * between
    stamps = [f"08:{n // 60:02}:{n % 60:02}" for n in range(2, 122, 2)]
    lines = [megatron.line(n, stamp) for n, stamp in enumerate(stamps, 1)]
    lines[30] = lines[30][:80] + "\n"
    parsed = read(megatron.HEAD + noise.join(["", *lines]) + noise)
    assert [number for number, _, _ in steps(parsed)] == list(range(1, 61))  # line 32 stands for 31, too
    head = megatron.HEAD.count("\n")
    assert parsed.rejects["line"].to_list() == [head + 31 + 31 * 2 * between]


def test_two_lines_in_one_are_the_first() -> None:
    glued = megatron.line(2, "08:00:18").rstrip("\n") + megatron.line(4, "08:00:22")
    assert [step for step, _, _ in steps(read(megatron.HEAD + glued))] == [1, 2]


@pytest.mark.parametrize("text", ["", "hello\n" * 3, "step: 1\n", "\x00", "[]", "iteration 1/ 2\n"])
def test_what_is_no_log_is_not_read(text: str) -> None:
    with pytest.raises(InputError):
        read(text)
