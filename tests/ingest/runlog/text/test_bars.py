"""Progress bars by the thousand: what is taken together, or left out, makes no difference to what comes of a log."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from ingest.errors import UntimedError
from ingest.runlog.formats.text import blocks, plain, scan, timeline
from ingest.runlog.text_format import builtin
from tests.support.logs.foreign_logs import DAY, codes, read, starts, steps

if TYPE_CHECKING:
    from ingest.tables import Parsed

BAR = "\r {0}%|██        | {0}/{1} [{2}:{3:02d}<05:00,  2.00s/it]"
PIECES = (
    *("", "\r", "\n", "\r\n", "\r\r\n", "   ", "50%|", "Ä", "rank]0: a", "{'loss': 2.5}"),
    *("2026-10-01T08:00:00Z ", "[2026-10-01 08:00:00] x", "[NeMo I 2026-10-01 08:00:00 y]"),
    *("  8%|██ | 19/24 [1:52:09<20:27:23,  3.33s/it]", " 9%|# | 9/24 [00:01<00:02, 1s/it]{'loss': 1}"),
)


def bar(step: int, seconds: int, total: int = 9_000) -> str:
    return BAR.format(step, total, seconds // 60, seconds % 60)


def logged(step: int, tokens: bool) -> str:
    more = f", 'num_input_tokens_seen': {step * 4_096}" if tokens else ""
    return f"\r{'':40}\n{{'loss': {2 + 1 / step:.4f}, 'epoch': 0.1{more}}}\n"


def trainer(seed: int, n_steps: int = 300) -> str:
    """The Trainer, killed and resumed: how often it draws, logs, saves and evaluates is up to chance."""
    chance, text, first = random.Random(seed), "", 0
    drawn, every, saved = chance.choice([1, 2, 3]), chance.choice([1, 2, 5]), chance.choice([40, 1_000])
    tokens, stop = chance.random() < 0.5, chance.randrange(60, n_steps)
    for last, clock in ((stop, 8), (n_steps, 12)):
        text += f"[INFO|trainer.py:2519] 2026-10-01 {clock:02}:00:00,000 >> ***** Running training *****\n" + bar(0, 0)
        now = 0
        for step in range(first + 1, last + 1):
            now += chance.choice([1, 2, 3])
            text += bar(step, now) * drawn
            if step % every == 0:
                text += logged(step, tokens) + (bar(step, now) if chance.random() < 0.98 else "")
            if step % saved == 0:
                text += f"[INFO|trainer.py:1] 2026-10-01 {clock:02}:{now // 60:02}:{now % 60:02},5 >> Saving model "
                text += f"checkpoint to /out/checkpoint-{step}\n" + "".join(bar(n, n, total=25) for n in range(9))
        first = chance.randrange(stop)
    return text + "\n"


def rows_of(parsed: Parsed) -> list[Any]:
    frames = [parsed.frames[name].rows() for name in ("run_sessions", "steps", "run_events")]
    return [*frames, parsed.rejects.rows(), codes(parsed), parsed.rows_read, parsed.rows_duplicate]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_bars_taken_together_give_what_each_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = trainer(seed)
    together = rows_of(read(text))
    monkeypatch.setattr(plain, "FEWEST", 1 << 30)
    assert rows_of(read(text)) == together
    monkeypatch.setattr(scan, "_without_redrawn", lambda lines, _: lines)
    monkeypatch.setattr(scan, "without_redrawn", lambda records, _: records)
    assert rows_of(read(text)) == together


@pytest.mark.parametrize("n_before", [1, 2, 3])
def test_bars_are_taken_together_wherever_they_begin(n_before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that waits for its bar when enough were taken one by one made all the others be taken one by one, too."""
    text = "".join(bar(step, 2 * step) for step in range(1, n_before + 1))
    text += "".join(logged(step, tokens=False) + bar(step, 2 * step) for step in range(n_before, 500))
    alone, sound = [], timeline.Timeline.take

    def take(own: timeline.Timeline, record: dict[str, Any]) -> None:
        alone.append(record["line"])
        sound(own, record)

    monkeypatch.setattr(timeline.Timeline, "take", take)
    parsed = read(text + "\n", begin=DAY)
    assert [step for step, _, _ in steps(parsed)][-1] == 499
    assert len(alone) < 50


def test_steps_numbered_by_bars_are_those_of_the_loop() -> None:
    """The times are the bar's, to the second; a step that was run again after the kill has its old number."""
    text = bar(0, 0)
    for step in range(1, 101):
        text += bar(step, 2 * step) * 3 + logged(step, tokens=True) + bar(step, 2 * step)
    text += bar(0, 0) + "".join(bar(step, 3 * (step - 80)) + logged(step, tokens=True) for step in range(81, 101))
    parsed = read(text + bar(100, 60) + "\n", begin=DAY)
    first = [(step, 2.0 * (step - 1), 2.0) for step in range(1, 101)]
    again = [(step, 200.0 + 3 * (step - 81), 3.0) for step in range(81, 100)]
    assert [row for row in steps(parsed) if row[1] is not None and row[1] < 200] == first
    assert steps(parsed)[100:119] == again
    assert parsed.frames["steps"]["tokens"][1:100].unique().to_list() == [4_096.0]
    assert len(starts(parsed)) == 2


def test_redrawn_bars_leave_nothing_behind() -> None:
    text = "".join(bar(step, step) for step in range(5_000)) + logged(5_000, tokens=False) + bar(5_000, 5_000) + "\n"
    (form,) = (form for form in builtin() if form.name == "transformers")
    for data in (text, text.replace("\r", "\n")):
        assert scan.scan([data.encode()], "log", [form])[0].records().height < 10


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join))
def test_a_block_apart_is_its_lines_apart(text: str) -> None:
    data = text.encode()
    count = text.count("\n") + (not text.endswith("\n"))
    lines = pl.DataFrame({"line": range(5, 5 + count), "text": text.removesuffix("\n").split("\n")})
    expected = blocks._each_apart(lines)  # noqa: SLF001 - the slow way
    assert_frame_equal(blocks.drawn_apart(data, 5, []), expected.select("line", "text", "part"))
    with_word = blocks.drawn_apart(data, 5, ["loss"])
    assert set(expected.filter(pl.col("text").str.contains("loss"))["part"]) <= set(with_word["part"])


STARTED = "[INFO|trainer.py:2414] 2026-10-01 08:00:00,000 >> ***** Running training *****\n"
CALLBACK = "[INFO|2026-10-01 08:00:{:02d}] llamafactory.train.callbacks:143 >> {{'loss': {}, 'learning_rate': 4.9e-05}}"
LOGGED = "{{'loss': {}, 'grad_norm': 0.77, 'epoch': 0.17, 'num_input_tokens_seen': {}}}\n"


def llama_factory(*, drawn: bool, callback: bool = True) -> str:
    """Six steps of 3 s of LLaMA-Factory, logged every second one: as a file has it, or a terminal's copy."""
    text = STARTED
    for step in range(1, 7):
        text += bar(step, 3 * step) if drawn else bar(step, 3 * step).removeprefix("\r") * (step % 2 == 0)
        if step % 2 == 0:
            text += CALLBACK.format(3 * step, 3.0 - step / 10) * callback + ("\n" if callback or not drawn else "")
            text += ("\r    \r" if drawn else "") + LOGGED.format(3.0 - step / 10, 100 * step)
            text += bar(step, 3 * step) if drawn else ""
    return text + "\n"


def test_a_callback_and_a_dictionary_are_one_step() -> None:
    parsed = read(llama_factory(drawn=True))
    assert steps(parsed) == [(step, 28800.0 + 3 * (step - 1), 3.0) for step in range(1, 7)]
    assert parsed.frames["steps"]["tokens"].to_list() == [100.0] * 6
    assert rows_of(read(llama_factory(drawn=True, callback=False)))[1] == rows_of(parsed)[1]
    assert parsed.rejects.is_empty()


def test_a_callback_has_the_number_of_the_bar_before_it() -> None:
    parsed = read(llama_factory(drawn=False))
    assert [(step, begin) for step, begin, _ in steps(parsed)][1:] == [(n, 28806.0 + 3 * (n - 3)) for n in range(3, 7)]
    assert parsed.frames["steps"]["loss"].drop_nulls().to_list() == [2.8, 2.6, 2.4]
    assert parsed.frames["steps"]["tokens"].to_list() == [None, *[100.0] * 4]


def test_the_first_loss_without_a_number_is_named() -> None:
    text = STARTED + "".join(CALLBACK.format(3 * n, 2.5) + "\n" for n in (1, 2))
    with pytest.raises(UntimedError, match=r"(?s)first without is in line 2\).*trainer_log\.jsonl"):
        read(text)


def test_a_bar_that_begins_behind_step_0_is_of_a_resumed_process() -> None:
    bars = [f"\r {n}%|# | {n}/40 [00:0{n - 4}<01:00,  1.00s/it]" for n in range(4, 10)]
    text = "".join(bars) + f"\n{{'loss': 2.5, 'epoch': 0.2}}\n{bars[-1]}\n"
    assert [step for step, _, _ in steps(read(text, begin=DAY))] == [5, 6, 7, 8, 9]
