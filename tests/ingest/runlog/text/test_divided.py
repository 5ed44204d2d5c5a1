"""However a log is divided while it is read its rows are the same: blocks of bytes, slices of records, spilled ones."""

from __future__ import annotations

import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from ingest.errors import InputError
from ingest.runlog import spool
from ingest.runlog.formats.text import blocks, in_time, reader
from ingest.runlog.formats.text.ranks import RankTally
from ingest.runlog.formats.text.scan import FormatScan
from ingest.runlog.formats.text.sessions import MOST_ROWS, STEP_COLUMNS, StepColumns
from queries.errors import WriteError
from tests.ingest.runlog.text.test_bars import trainer
from tests.ingest.runlog.text.test_plain import BEGIN, nemo, titan, written
from tests.ingest.runlog.text.test_torchtitan import line as titan_line
from tests.support.logs.foreign_logs import codes, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.tables import Parsed

BERLIN = ZoneInfo("Europe/Berlin")


def executed(seed: int) -> list[tuple[int, datetime]]:
    """Steps of a run that starts anew twice, each with its end; the clock is set back within it."""
    chance = random.Random(seed)
    now, step, made = datetime(2026, 10, 25, 0, 20, tzinfo=UTC), 0, []
    for _ in range(3):
        for _ in range(chance.randint(5, 40)):
            step += 1
            now += timedelta(seconds=chance.choice([1, 60, 300]))
            made.append((step, now))
        step = max(0, step - chance.randint(0, 4))
    return made


def deepspeed(seed: int) -> str:
    """Local times in the night in which an hour occurs twice."""
    line = (
        "[{0:%Y-%m-%d %H:%M:%S},000] [INFO] [logging.py:96:log_dist] [Rank 0] step={1}, skipped=0, lr=[5e-05], mom=[]"
    )
    return "\n".join(line.format(at.astimezone(BERLIN), step) for step, at in executed(seed)) + "\n"


def doubled(seed: int) -> str:
    """Its beginning stands before it once more."""
    lines = [
        f"iter {step}: loss {1 + step / 7:.4f}, time {900 + (seed + 37 * n) % 200}.00ms, mfu 30.00%\n"
        for n, (step, _) in enumerate(executed(seed))
    ]
    return "".join([*lines[: seed % len(lines)], *lines])


def of_two_ranks(seed: int) -> str:
    """Two ranks print the same, one of them a few lines late."""
    lines = [f"iter {step}: loss 2.5000, time 1500.00ms, mfu 30.00%\n" for step, _ in executed(seed)]
    late = seed % 3
    both = [
        line
        for n in range(len(lines) + late)
        for line in ([f"0: {lines[n]}"] if n < len(lines) else []) + ([f"1: {lines[n - late]}"] if n >= late else [])
    ]
    return "".join(both)


def yearless(seed: int) -> str:
    """Stamps without a year, behind New Year, too."""
    first = datetime(2026, 12, 31, 23, 50, tzinfo=UTC) - executed(seed)[0][1]
    return "".join(
        f"I{at + first:%m%d %H:%M:%S}.500000 1 train.cc:9] iter {step}: loss 2.5000, time 1000.00ms, mfu 30.00%\n"
        for step, at in executed(seed)
    )


def by_clock(seed: int) -> str:
    """Times of day alone, for more than a day, and lines without any."""
    return "".join(
        f"{at + 20 * (at - executed(seed)[0][1]):%H:%M:%S} iter {step}: loss 2.5000, time 1000.00ms, mfu 30.00%\n"
        + "iter done\n" * (step % 3)
        for step, at in executed(seed)
    )


def shuffled(seed: int) -> str:
    """Lines in no order, in one case by their stamps, in the other without any."""
    lines = (deepspeed if seed % 2 else doubled)(seed).splitlines(keepends=True)
    return "".join([lines[0], *random.Random(seed).sample(lines[1:], len(lines) - 1)])


LOGS = (written, titan, nemo, trainer, deepspeed, doubled, of_two_ranks, yearless, by_clock, shuffled)


def rows_of(text: str, chunk: int) -> tuple[Parsed | None, str | list[Any]]:
    """What comes of a log: its frames, and everything else that is reported; an error as its message."""
    try:
        parsed = read(text, timezone="Europe/Berlin", begin=BEGIN, facts={"seq_len": 128, "n_gpus": 8}, chunk=chunk)
    except InputError as error:
        return None, str(error)
    told = [parsed.rejects.rows(), codes(parsed), [each.count for each in parsed.warnings]]
    return parsed, [*told, parsed.rows_read, parsed.rows_loaded, parsed.rows_duplicate]


@pytest.mark.slow
@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.__name__)
@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    block=st.integers(1, 9_000),
    piece=st.integers(1, 200),
    held=st.sampled_from([0, 2_000]),
)
def test_rows_do_not_depend_on_how_a_log_is_divided(
    log: Callable[[int], str], seed: int, block: int, piece: int, held: int
) -> None:
    text = log(seed)
    whole, told = rows_of(text, 1 << 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", block)
        patch.setattr(reader, "SLICE", piece)
        patch.setattr(spool, "MOST_HELD", held)
        divided, said = rows_of(text, 1 + block // 3)
    assert said == told
    if whole is None or divided is None:
        assert whole is divided
        return
    for name, frame in whole.frames.items():
        assert_frame_equal(divided.frames[name], frame, rel_tol=1e-12, abs_tol=0)


def of_ranks(seed: int, n_ranks: int = 3) -> str:
    """Lines of ranks that lose some, come late, and go on on another node."""
    chance = random.Random(seed)
    lines = [
        (n + chance.choice([0, 0, 1, 4]), f"{rank}: {titan_line(n, f'08:00:{20 + n:02d},000')}")
        for rank in range(n_ranks)
        for n in range(1 + chance.choice([0, 0, 9]) * (rank == 2), 30)
        if chance.random() < 0.95
    ]
    return "".join(line for _, line in sorted(lines, key=lambda one: one[0]))


def test_ranks_in_order_are_not_held_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def held(_: FormatScan) -> pl.DataFrame:
        raise AssertionError

    lines = [f"{rank}: {titan_line(n, f'08:00:{20 + n:02d},000')}" for n in range(1, 30) for rank in range(4)]
    monkeypatch.setattr(blocks, "BLOCK", 900)
    monkeypatch.setattr(reader, "SLICE", 7)
    monkeypatch.setattr(FormatScan, "records", held)
    parsed = read("".join(lines), chunk=500)
    assert parsed.frames["steps"]["step"].to_list() == list(range(1, 30))
    assert parsed.rows_duplicate == 3 * 29


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_ranks_in_slices_are_those_held_as_a_whole(seed: int) -> None:
    text = of_ranks(seed)
    in_slices, report = rows_of(text, 1 << 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RankTally, "agree_on_steps", False)
        whole, report_of_whole = rows_of(text, 1 << 20)
    assert report == report_of_whole
    assert in_slices is not None
    assert whole is not None
    for name, frame in whole.frames.items():
        assert_frame_equal(in_slices.frames[name], frame)


def test_lines_out_of_order_are_sorted_a_stretch_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shuffled(1)
    whole, report = rows_of(text, 1 << 20)
    monkeypatch.setattr(in_time, "ROWS", 7)
    monkeypatch.setattr(reader, "SLICE", 3)
    parts, report_of_parts = rows_of(text, 1 << 20)
    assert report_of_parts == report
    assert whole is not None
    assert parts is not None
    assert_frame_equal(parts.frames["steps"], whole.frames["steps"])


def test_spilled_frames_come_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"a": pl.Int64(), "b": pl.String(), "c": pl.Float64()}
    frames = [pl.DataFrame({"a": [n, None], "b": [None, None], "c": [None, n / 2]}, schema=schema) for n in range(9)]
    frames[4] = frames[4].with_columns(b=pl.lit("text" * 9), a=pl.lit(None, dtype=pl.Int64))
    monkeypatch.setattr(spool, "MOST_HELD", 100)
    spooled = spool.Spool(schema)
    for number, frame in enumerate(frames):
        spooled.add(frame, number % 2)
    assert (spooled.height, spooled.numbers()) == (18, [0, 1])
    for _ in range(2):
        assert spooled.whole(0).equals(pl.concat(frames[::2]))
        assert spooled.whole(1).equals(pl.concat(frames[1::2]))


@pytest.mark.parametrize("reason", ["No space left on device", "No usable temporary directory"])
def test_no_room_for_temporary_files(reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def opened(**_: str) -> IO[bytes]:
        if reason.startswith("No usable"):
            raise FileNotFoundError(2, reason)
        return Path("/dev/full").open("r+b")

    monkeypatch.setattr(spool, "MOST_HELD", 0)
    monkeypatch.setattr(tempfile, "TemporaryFile", opened)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    frames = spool.Spool({"step": pl.Int64()})
    with pytest.raises(WriteError, match=reason) as caught:
        frames.add(pl.DataFrame({"step": [1, 2, 3]}))
    assert str(tmp_path) in str(caught.value)
    assert "TMPDIR" in str(caught.value)


def test_few_steps_at_a_time_become_large_frames() -> None:
    steps = StepColumns()
    few = pl.DataFrame({"step": range(40), "begin": range(40)}).with_columns(
        pl.lit(2.5).alias(name) for name in list(STEP_COLUMNS)[3:]
    )
    for session in range(1_000):
        steps.append(session, 0, *[2.5] * 7)
        steps.extend(session, few)
    frames = list(steps.frames(1))
    assert len(frames) <= 41_000 // MOST_ROWS + 1
    assert steps.height == sum(frame.height for frame in frames) == 41_000
    assert pl.concat(frames)["session"].is_sorted()
    assert steps.printed()[999] == {"printed_tflops": 2.5, "printed_mfu": 0.025, "printed_steps": 41}
