"""Every text format, by the lines of its own examples: damaged as logs are, it is read or refused."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import InputError
from ingest.runlog.text_format import TextFormat, builtin
from tests.ingest.runlog.text.test_hostile_text import adds_up
from tests.support.logs.foreign_logs import read

if TYPE_CHECKING:
    from collections.abc import Callable

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
FORMATS = [form for form in builtin() if form.examples]

NOISE = (
    b"NCCL INFO Channel 00/32 : 0 1 2 3\n",
    b"\r 12%|#####     | 12/100 [00:12<01:30,  1.02s/it]\r 13%|#####     | 13/100 [00:13<01:29,  1.02s/it]",
    b"\x1b[31mWARNING\x1b[0m \x00\x00\xff\xfe nothing to see\n",
    b"\n\n\n",
    b"x" * 70_000 + b"\n",
)


def log_of(form: TextFormat) -> list[bytes]:
    """The lines of all examples, three times: its steps repeat, as those of a run that was resumed."""
    return [line for example in form.examples for line in (example.text + "\n").encode().splitlines(keepends=True)] * 3


def cut(chance: random.Random, lines: list[bytes]) -> list[bytes]:
    return [line[: chance.randrange(len(line) + 1)] if chance.random() < 0.3 else line for line in lines]


def doubled(chance: random.Random, lines: list[bytes]) -> list[bytes]:
    return [line for line in lines for _ in range(chance.randint(1, 3))]


def shuffled(chance: random.Random, lines: list[bytes]) -> list[bytes]:
    return chance.sample(lines, len(lines))


def between_noise(chance: random.Random, lines: list[bytes]) -> list[bytes]:
    return [part for line in lines for part in (chance.choice(NOISE), line)]


def of_ranks(chance: random.Random, lines: list[bytes]) -> list[bytes]:
    prefixes = (b"[rank%d]:", b"%d: ", b"[1,%d]<stdout>:", b"node%02d: ")
    return [chance.choice(prefixes) % chance.randrange(4) + line for line in lines for _ in range(2)]


def with_damaged_bytes(chance: random.Random, lines: list[bytes]) -> list[bytes]:
    data = bytearray(b"".join(lines))
    for _ in range(20):
        data[chance.randrange(len(data))] = chance.choice(b"\x00\xff\r\n\x1b9,.")
    return [bytes(data)]


def with_carriage_returns(chance: random.Random, lines: list[bytes]) -> list[bytes]:
    return [line.replace(b"\n", chance.choice([b"\r\n", b"\r", b"\n"])) for line in lines]


DAMAGES = (cut, doubled, shuffled, between_noise, of_ranks, with_damaged_bytes, with_carriage_returns)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), damages=st.lists(st.sampled_from(DAMAGES), min_size=1, max_size=3))
def test_damage_is_read_or_refused(
    form: TextFormat, seed: int, damages: list[Callable[[random.Random, list[bytes]], list[bytes]]]
) -> None:
    chance, lines = random.Random(seed), log_of(form)
    for damage in damages:
        lines = damage(chance, lines)
    try:
        parsed = read(b"".join(lines), begin=BEGIN)
    except InputError:
        return
    assert adds_up(parsed)
    steps = parsed.frames["steps"]
    assert steps["duration_s"].drop_nulls().ge(0).all()
    assert steps["ts"].null_count() == 0
    assert parsed.rejects["reason"].str.len_chars().gt(0).all()
