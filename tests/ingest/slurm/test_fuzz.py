"""No bytes break a reader, and none are lost unseen.

Real output is damaged in every way we could think of. A coverage-guided fuzzer (atheris) ran over the same checks once
by hand; what it found is among the tests of traps.
"""

from __future__ import annotations

import bisect
import dataclasses
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.context import ParseContext
from ingest.delimited.reader import LINE, clean, read_blocks, read_rows
from ingest.errors import InputError
from ingest.slurm.accounting.sacct import ACCOUNTING, parse_accounting
from ingest.slurm.detect import detect_kind
from ingest.slurm.nodes.events import EVENTS
from ingest.slurm.parsers import PARSERS, parse
from ingest.tables import RAW_LIMIT
from tests.support.slurm.parsing import DATA, ROW, text
from tests.support.slurm.sacct_text import IDENTITY, TEXTS, TORN_WORDS, TYPED, render, tables

if TYPE_CHECKING:
    from ingest.delimited.header import DumpLayout
    from ingest.delimited.reader import DumpRows
    from ingest.tables import SourceName

KINDS: Final = sorted(PARSERS)
LAYOUTS: Final = (ACCOUNTING, EVENTS)
SEEDS: Final = [path.read_bytes()[:3_000] for path in sorted(DATA.rglob("*")) if path.is_file()]
PIECES: Final = (
    b"",
    b"|",
    b"\n",
    b"\n\n",
    b"\r\n",
    b"\x00",
    b"\xff",
    b"\xc3",
    b"1",
    b"[",
    b"]",
    b"|#",
    b" ",
    b"Unknown",
    b"=",
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Real output with pieces cut out, doubled, moved or replaced; or just any bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=300))
    data = draw(st.sampled_from([*SEEDS, text({"JobName": "a|b\nc"}, {"Comment": "\n"})]))
    for _ in range(draw(st.integers(1, 4))):
        first, last = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        piece = draw(st.sampled_from([data[first:last], *PIECES]))
        data = data[:first] + piece + data[draw(st.sampled_from([first, last])) :]
    return data


@st.composite
def dumps(draw: st.DrawFn) -> bytes:
    """Jobs in some of the columns, a value or two of them replaced by nonsense, and lines that are no rows."""
    columns = draw(st.lists(st.sampled_from([*IDENTITY, *TYPED, *TEXTS]), min_size=2, unique=True))
    dump = render(draw(tables(text=TORN_WORDS, most=4)), columns)
    for _ in range(draw(st.integers(0, 3))):
        word = draw(
            st.sampled_from([b"Unknown", b"COMPLETED", b"100", b"17", b"n[", b"gres/gpu=", b"0", b"c1", b"|\n"])
        )
        dump = dump.replace(word, draw(st.binary(max_size=6)), draw(st.integers(1, 3)))
    lines = dump.split(b"\n")
    for _ in range(draw(st.integers(0, 4))):
        junk = draw(
            st.sampled_from([b"sacct: error: x", b"7|", b"a|b|c", b"", b" ", lines[0], lines[-2], lines[-2][:20]])
        )
        lines.insert(draw(st.integers(0, len(lines))), junk)
    return b"\n".join(lines)


@settings(max_examples=150, deadline=None)
@given(damaged(), st.sampled_from(KINDS), st.booleans())
def test_no_bytes_break_a_reader_or_its_account_of_rows(data: bytes, kind: SourceName, accept_truncated: bool) -> None:
    with suppress(InputError):
        detect_kind(data)
    about = ParseContext(origin="x", cluster="c", timezone="Europe/Berlin", accept_truncated=accept_truncated)
    with suppress(InputError):
        parsed = parse(kind, data, about)
        reported = parsed.rows_loaded + parsed.rows_duplicate + parsed.rows_skipped + parsed.rows_rejected
        assert parsed.rows_read == reported
        assert parsed.rejects.height == parsed.rows_rejected
        assert all(len(raw) <= RAW_LIMIT for raw in parsed.rejects["raw"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\x00", b"{", b"[]", b"{}", b"null", b"|", b"\xef\xbb\xbf", b"\xfe\xff\x00"]
)
def test_next_to_nothing_is_an_error_and_no_crash(kind: SourceName, data: bytes) -> None:
    about = ParseContext(origin="x", cluster="c", timezone="UTC")
    with pytest.raises(InputError):
        parse(kind, data, about)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in {"slurm.accounting", "slurm.nodes"}])
@pytest.mark.parametrize("rest", [b"], }", b"]} x", b"], 'meta': 1}", b", {", b', {"name'])
def test_json_damaged_behind_an_undeclared_row_is_an_error(kind: SourceName, rest: bytes) -> None:
    # found by the coverage-guided fuzzer
    name = b"jobs" if kind == "slurm.accounting" else b"nodes"
    data = b'{"%s": [{"job_id": {"x": 1}, "name": [1], "state": {"a": 1}}' % name + rest
    with pytest.raises(InputError):
        parse(kind, data, ParseContext(origin="x", cluster="c"))
    with suppress(InputError):
        parse(kind, data, ParseContext(origin="x", cluster="c", accept_truncated=True))


@settings(max_examples=60, deadline=None)
@given(dumps(), st.booleans())
def test_any_columns_with_any_nonsense_are_read_or_refused(data: bytes, accept_truncated: bool) -> None:
    with suppress(InputError):
        parsed = parse_accounting(
            data, ParseContext(origin="x", cluster="c", timezone="UTC", accept_truncated=accept_truncated)
        )
        reported = parsed.rows_loaded + parsed.rows_duplicate + parsed.rows_skipped + parsed.rows_rejected
        assert parsed.rows_read == reported


def unowned(data: bytes, rows: DumpRows) -> list[str]:
    """Lines that belong to no row, read or refused, and are neither blank nor the header."""
    owners = {line: rows.raw(line) for line in rows.frame[LINE]} | {one.line: one.raw for one in rows.refused}
    assert len(owners) == rows.frame.height + len(rows.refused), "a line begins two rows"
    starts = sorted(owners)
    lost = []
    for number, line in enumerate(clean(data, "x")[0].decode().split("\n"), 1):
        if not line.strip() or number == rows.header.line + 1:
            continue
        owner = bisect.bisect_right(starts, number) - 1
        raw = owners[starts[owner]] if owner >= 0 else ""
        span = raw.split("\n")
        at = number - starts[owner]
        if len(raw) < RAW_LIMIT and (owner < 0 or at >= len(span) or span[at].strip() != line.strip()):
            lost.append(line)
    return lost


def read(data: bytes, layout: DumpLayout, accept_truncated: bool) -> DumpRows | None:
    with suppress(InputError):
        return read_rows(data, layout, origin="x", accept_truncated=accept_truncated)
    return None


@settings(max_examples=120, deadline=None)
@given(st.one_of(damaged(), dumps()), st.sampled_from(LAYOUTS), st.booleans())
def test_every_line_is_of_a_read_refused_or_skipped_row(
    data: bytes, layout: DumpLayout, accept_truncated: bool
) -> None:
    rows = read(data, layout, accept_truncated)
    if rows is not None:
        assert len(unowned(data, rows)) <= rows.n_skipped


@settings(max_examples=120, deadline=None)
@given(st.one_of(damaged(), dumps()), st.sampled_from(LAYOUTS), st.integers(1, 900), st.integers(0, 3_000))
def test_damaged_dumps_in_blocks_equal_damaged_dumps_as_a_whole(
    data: bytes, layout: DumpLayout, block: int, cut: int
) -> None:
    rows = read(data, layout, accept_truncated=True)
    if rows is None:
        return
    blocks = list(read_blocks([data[:cut], data[cut:]], layout, origin="x", accept_truncated=True, block=block))
    assert pl.concat([one.frame for one in blocks]).equals(rows.frame)
    assert [refused for one in blocks for refused in one.refused] == rows.refused
    assert sum(one.n_skipped for one in blocks) == rows.n_skipped


def test_unowned_line_would_be_detected() -> None:
    data = b"sacct: error: x\n" + text({}, columns=["JobID", "State", "JobName", "End"]) + b"7|\n"
    rows = read(data, ACCOUNTING, accept_truncated=False)
    assert rows is not None
    assert unowned(data, rows) == []
    assert unowned(data, dataclasses.replace(rows, refused=[])) == ["sacct: error: x", "7|"]
    assert unowned(data, dataclasses.replace(rows, frame=rows.frame.clear())) == ["7|COMPLETED|train|1795247886"]


def test_the_damage_reaches_the_rows() -> None:
    """The seeds are read when they are whole, so damage to them is damage to rows."""
    assert sum(read(seed, ACCOUNTING, accept_truncated=True) is not None for seed in SEEDS) >= 4
    assert set(IDENTITY) | set(TYPED) | set(TEXTS) <= {*ROW, "Suspended", "ExitCode", "TimelimitRaw", "Comment"}
