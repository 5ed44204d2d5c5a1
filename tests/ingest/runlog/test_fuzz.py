"""Whatever stands in a run log, it is read with an account of every line, or refused as a whole with a reason."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest.errors import InputError
from ingest.load_warnings import LoadWarning
from ingest.plausible import RUN_LOG
from ingest.runlog.lines import Ckpt, LoggedStep, Run, TimedEvent
from ingest.runlog.parse import read_runlog
from tests.support.logs.run_logs import parse_runlog

T = 1_790_812_800
FIELDS = sorted({name for kind in (Run, LoggedStep, Ckpt, TimedEvent) for name in kind.__struct_fields__} | {"type"})
NUMBERS = (
    st.floats(allow_nan=True)
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.sampled_from([T, T + 1.5, T * 1000, 2**53, 2**63, 2**64, 1e308, -0.0, 5e-324])
)
WORDS = st.text() | st.sampled_from(
    ["run", "step", "ckpt", "event", "step_start", "checkpoint_save", "2026-10-01T00:00:00Z", "1e999", "\0", "true"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
SOUND: list[dict[str, Any]] = [
    {"type": "run", "v": 1, "t": T, "run_id": "r", "cluster": "c", "job_id": "7", "n_gpus": 8, "params": 8e9},
    {"type": "step", "step": 1, "t": T + 1, "duration_s": 1.5, "tokens": 1024, "loss": 2.0},
    {"type": "ckpt", "step": 1, "begin": T + 3, "end": T + 4, "durable": True},
    {"type": "event", "kind": "eval", "begin": T + 5, "end": T + 6},
]


@st.composite
def altered(draw: st.DrawFn) -> str:
    """A sound line with some fields changed, added or gone."""
    line = dict(draw(st.sampled_from(SOUND)))
    line |= draw(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4))
    for gone in draw(st.lists(st.sampled_from(FIELDS), max_size=2)):
        line.pop(gone, None)
    return json.dumps(line)


DEEP = st.sampled_from(["[", '{"a":']).map(lambda opening: opening * 3_000)
DIGITS = st.sampled_from(["step", "t", "tokens"]).map(
    lambda name: f'{{"type":"step","step":1,"t":{T},"{name}":{"9" * 5_000}}}'
)
LINES = st.lists(altered() | st.text() | DEEP | DIGITS | st.sampled_from(list(map(json.dumps, SOUND))))


@pytest.mark.slow
@given(LINES, st.data())
def test_any_lines_are_loaded_or_refused_and_all_are_counted(lines: list[str], data: st.DataObject) -> None:
    text = "\n".join([json.dumps(SOUND[0]), *lines]).encode(errors="replace")
    if data.draw(st.booleans()):
        at, until = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
        text = text[:at] + data.draw(st.binary(max_size=8)) + text[until:]
    try:
        result = parse_runlog(text, origin="x", cluster="c")
    except InputError as error:
        output = str(error)
        assert output.startswith("x")
        return
    assert result.rows_read == result.rows_loaded + result.rows_duplicate + result.rows_skipped + result.rows_rejected
    for name, frame in result.frames.items():
        for column, bound in RUN_LOG.items():
            if column in frame.columns:
                beyond = frame.filter(~pl.col(column).is_between(-bound.most, bound.most))
                assert beyond.is_empty(), (name, column, beyond)
        for column, kind in frame.schema.items():
            if kind.is_float():
                assert frame[column].drop_nulls().is_finite().all(), (name, column)


@given(st.binary())
@example(b"\x1c")  # a blank of texts, not of bytes
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    try:
        parse_runlog(data, origin="x", cluster="c")
    except InputError as error:
        output = str(error)
        assert output.startswith("x")


def test_the_fields_that_are_tried_are_those_of_the_format() -> None:
    assert {"tokens", "duration_s", "run_id", "durable", "kind", "expert_params"} <= set(FIELDS)
    with pytest.raises(InputError):
        parse_runlog(b"", origin="x")


def contents_of(chunks: list[bytes], block: int) -> object:
    """All that a log read in such blocks comes to."""
    try:
        log = read_runlog(chunks, origin="x", cluster="c", block=block)
    except InputError as error:
        return str(error)
    days = [(cluster, day, rows.rows()) for cluster, day, rows in log.days()]
    parsed = log.parsed(sum(len(rows) for _, _, rows in days))
    frames = {name: frame.rows() for name, frame in (*parsed.frames.items(), ("rejects", parsed.rejects))}
    counts = [parsed.rows_read, parsed.rows_loaded, parsed.rows_duplicate, parsed.rows_skipped]
    return days, frames, counts, parsed.warnings, parsed.covers_from, parsed.covers_until


@pytest.mark.slow
@given(LINES, st.data())
def test_a_log_read_in_blocks_is_the_log_read_as_a_whole(lines: list[str], data: st.DataObject) -> None:
    """Wherever the input and its blocks are cut: the same rows, refused lines, line numbers, counts and warnings."""
    session = json.dumps(SOUND[0])
    text = data.draw(st.sampled_from(["\n", "\r\n"])).join([session, *lines, session, *lines]).encode(errors="replace")
    size = data.draw(st.integers(1, 2 * len(text)))
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    assert contents_of(chunks, data.draw(st.integers(1, len(text)))) == contents_of([text], 2 * len(text))


def test_steps_that_go_back_in_time_are_counted_across_blocks() -> None:
    """A session begun in one block goes on in the next."""
    lines = [json.dumps(line) for line in SOUND[:2]]
    lines += [json.dumps(SOUND[1] | {"step": 2 + earlier, "t": T - earlier}) for earlier in range(5)]
    text = "\n".join(lines).encode()
    whole, blocks = contents_of([text], 10_000), contents_of([text], 1)
    assert blocks == whole
    assert parse_runlog(text).warnings == [LoadWarning("steps_backwards", 5)]
