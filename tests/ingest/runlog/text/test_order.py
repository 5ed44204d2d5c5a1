"""Logs without times that stand in their file twice, or whose lines are mixed; and a real restart, which neither is."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from ingest.errors import UntimedError
from ingest.runlog.text_format import parse_format
from tests.ingest.runlog.text.test_megatron import line, old_line
from tests.support.logs.foreign_logs import DAY, codes, read, starts, steps

LINES = [old_line(n, ms=1000.0 + n) for n in range(1, 9)]
ONCE = steps(read("".join(LINES), begin=DAY))


@pytest.mark.parametrize(
    "text",
    [
        "".join(LINES) * 2,
        "".join(LINES) * 3,
        "".join(LINES[:5] + LINES),
        "".join(LINES + LINES[:5]),
    ],
    ids=["twice", "three times", "its beginning before", "its beginning behind"],
)
def test_copies_of_a_log_count_once(text: str) -> None:
    parsed = read(text, begin=DAY)
    assert steps(parsed) == ONCE
    assert "log_repeated" in codes(parsed)
    assert parsed.rows_read == parsed.rows_loaded + parsed.rows_duplicate


def test_a_run_from_the_beginning_again_is_no_copy() -> None:
    again = [old_line(n, ms=1100.0 + n) for n in range(1, 9)]
    parsed = read("".join(LINES[:5] + again), begin=DAY)
    assert [step for step, _, _ in steps(parsed)] == [*range(1, 6), *range(1, 9)]


def test_a_process_without_times_lies_behind_the_last() -> None:
    parsed = read("".join(LINES[:6] + [old_line(n, ms=1000.0) for n in range(4, 9)]), begin=DAY)
    assert starts(parsed) == [0, 6.021]
    assert steps(parsed)[6] == (4, 6.021, 1.0)
    assert steps(parsed)[-1] == (8, 10.021, 1.0)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_mixed_lines_without_times_are_steps_in_order(ranks: int) -> None:
    mixed = [old_line(n, ms=1000.0 + n) for n in range(1, 9) for _ in range(ranks)]
    random.Random(5).shuffle(mixed)
    parsed = read("".join(mixed), begin=DAY)
    assert steps(parsed) == ONCE
    assert "order_unknown" in codes(parsed)


def test_steps_run_again_stay_where_few_are_logged() -> None:
    """Every hundredth step is logged, and three times a process goes on from an earlier one without saying so."""
    runs = [range(first, first + 500, 100) for first in (100, 300, 500, 700)]
    text = "".join(old_line(n, ms=1000.0 + 7 * run) for run, logged in enumerate(runs) for n in logged)
    parsed = read(text, begin=DAY)
    numbers = [step for step, _, _ in steps(parsed)]
    assert [later for step, later in pairwise(numbers) if later <= step] == [300, 500, 700]
    assert "order_unknown" not in codes(parsed)


def test_stamp_with_a_zone_goes_before_one_without() -> None:
    """A container's stamp, a bar drawn over, and behind it a line with a local stamp of its own."""
    own = "".join(line(n, f"08:00:{2 * n:02}") for n in range(1, 9)).splitlines()
    text = "".join(
        f"2026-10-01T08:00:{2 * n:02}.1Z  2%|#  | {n}/100 [00:02<09:00, 1s/it]\r{each}\n"
        for n, each in enumerate(own, 1)
    )
    assert [step for step, _, _ in steps(read(text))] == list(range(1, 9))


def test_lines_that_end_with_carriage_returns_alone() -> None:
    text = "".join(line(n, f"08:00:{2 * n:02}") for n in range(1, 9))
    assert steps(read(text.replace("\n", "\r"))) == steps(read(text))


def test_a_pattern_whose_group_is_no_number_is_named() -> None:
    own = {"kind": "step", "starts": r"it \d+", "fields": {"step": "(it .*)"}}
    form = parse_format({"name": "own", "line": [own]}, origin="here")
    with pytest.raises(UntimedError, match=r"no step has a number \(the first without is in line 1\)"):
        read("2026-10-01T08:00:00Z it 1 | 2.5\n", formats=(form,))


def test_steps_without_their_progress_bar_name_where_it_goes() -> None:
    text = "2026-10-01T08:00:02Z {'loss': 1.2, 'learning_rate': 6.3e-06, 'epoch': 0.03}\n"
    with pytest.raises(UntimedError, match=r"no step has a number .*\n.*stderr(?s:.*)trainer_state\.json"):
        read(text)


def test_clock_that_is_set_back_does_not_mix_the_steps() -> None:
    """Sorted by time, steps 9 to 13 would lie between steps 4 to 8, and be restarts."""
    log = read("".join(line(n, f"08:01:{4 * n - 20 * (n > 8):02d}", ms=4000.0) for n in range(1, 14)))
    assert sorted(step for step, _, _ in steps(log)) == list(range(1, 14))
    assert len(starts(log)) == 1
    assert "steps_backwards" in codes(log)


def _of_rank(rank: int, numbers: range, *, late: int) -> str:
    ends = {n: 4 * n + late * rank for n in numbers}
    return "".join(line(n, f"08:{end // 60:02d}:{end % 60:02d}", ms=4000.0 + rank) for n, end in ends.items())


@pytest.mark.parametrize("blocks", [[range(1, 41)], [range(1, 21), range(21, 41)]], ids=["files", "blocks"])
@pytest.mark.parametrize("late", [0, 1])
def test_ranks_one_behind_the_other_are_one_run(blocks: list[range], late: int) -> None:
    """`cat rank0.log rank1.log`, and ranks whose output is buffered in blocks, without their names."""
    log = read("".join(_of_rank(rank, block, late=late) for block in blocks for rank in range(2)))
    assert [step for step, _, _ in steps(log)] == list(range(1, 41))
    assert len(starts(log)) == 1


def test_restart_whose_lines_are_mixed_up_stays() -> None:
    """No number goes back in the order of the lines, since 2 of the first process stands behind 1 of the second."""
    log = read(line(1, "08:00:04", ms=4000.0) + line(1, "08:00:38", ms=4000.0) + line(2, "08:00:08", ms=4000.0))
    assert starts(log) == [28_800, 28_834]


def test_ranks_that_go_back_one_behind_the_other_are_one_run() -> None:
    """The second rank's first step is ahead of the first rank's last, and its time before that."""
    stamps = [(9, "08:00:36"), (8, "08:01:04"), (9, "08:00:37"), (8, "08:01:05")]
    log = read("".join(line(n, stamp, ms=4000.0) for n, stamp in stamps))
    assert [step for step, _, _ in steps(log)] == [9, 8]
