"""What holds for any jobs: what was written is read back, however it was written, cut up, ordered and repeated."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.context import ParseContext
from ingest.delimited.reader import read_blocks, read_rows
from ingest.slurm.accounting.merge import merge_attempts
from ingest.slurm.accounting.sacct import ACCOUNTING, parse_accounting
from tests.support.slurm.parsing import same_rows, text
from tests.support.slurm.row_accounts import on_nodes
from tests.support.slurm.sacct_text import (
    IDENTITY,
    PLAIN,
    RARE,
    TEXTS,
    TORN_WORDS,
    TYPED,
    ZONES,
    Job,
    any_order,
    epoch,
    jobs,
    local,
    occurs_twice,
    offset,
    render,
    tables,
    telling_order,
    wanted,
)
from tests.support.slurm.traps import agree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.tables import Parsed

KEY = ["job_id", "submitted_at"]


def read_back(parsed: Parsed, table: Sequence[Job], *, texts: Sequence[str] = TEXTS) -> None:
    """Every job is there, each once, and as it was."""
    assert parsed.rejects["reason"].to_list() == []
    assert (parsed.rows_read, parsed.rows_loaded) == (len(table), len(table))
    agree(parsed)
    got = {int(one["job_id"]): one for one in parsed.frames["attempts"].to_dicts()}
    held = {int(job): nodes for job, nodes in on_nodes(parsed).group_by("job_id").agg("node").rows()}
    for job in table:
        one, want = got[job.number], wanted(job)
        if "JobName" in texts:
            want |= {"name": job.name or None}
        if "Comment" in texts:
            want |= {"comment": job.comment.strip() or None}
        assert {name: one[name] for name in want} == want
        assert sorted(held.get(job.number, [])) == (sorted(job.nodes) if job.wait is not None else [])


# --- what is written is read back ---------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.data(), any_order(), st.sampled_from(PLAIN))
def test_any_jobs_round_trip_with_any_columns_and_delimiter(
    data: st.DataObject, columns: list[str], delimiter: str
) -> None:
    words = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=delimiter), max_size=12)
    table = data.draw(tables(text=words))
    read_back(parse_accounting(render(table, columns, delimiter), ParseContext(origin="x")), table)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from(ZONES), st.booleans())
def test_any_jobs_are_read_back_from_times_of_any_zone(data: st.DataObject, zone: str, with_offset: bool) -> None:
    table = data.draw(tables(zone=None if with_offset else zone))
    columns = [*IDENTITY, *TYPED]
    if with_offset:
        read_back(
            parse_accounting(render(table, columns, clock=offset(zone)), ParseContext(origin="x")), table, texts=[]
        )
        return
    parsed = parse_accounting(render(table, columns, clock=local(zone)), ParseContext(origin="x", timezone=zone))
    twice = [job for job in table if any(occurs_twice(moment, zone) for moment in (job.start, job.end) if moment)]
    if not twice:
        read_back(parsed, table, texts=[])
    for one in parsed.frames["attempts"].to_dicts():  # in the repeated hour the length of the job holds all the same
        job = table[int(one["job_id"]) - 1]
        if one["ended_at"] and one["started_at"]:
            assert one["ended_at"] - one["started_at"] == timedelta(seconds=job.run + job.suspended)
    assert parsed.rejects["reason"].to_list() == []


@settings(max_examples=30, deadline=None)
@given(tables(text=TORN_WORDS), telling_order(TEXTS), st.sampled_from(["\x1f", "\x1e\x1d"]))
def test_text_may_hold_breaks_and_delimiters_in_our_column_order(
    table: list[Job], columns: list[str], delimiter: str
) -> None:
    read_back(parse_accounting(render(table, columns, delimiter), ParseContext(origin="x")), table)


@settings(max_examples=30, deadline=None)
@given(tables(text=TORN_WORDS), telling_order(["JobName"]), st.sampled_from(["|", ";", "~"]))
def test_one_text_between_typed_columns_may_hold_the_delimiter(
    table: list[Job], columns: list[str], delimiter: str
) -> None:
    read_back(parse_accounting(render(table, columns, delimiter), ParseContext(origin="x")), table, texts=["JobName"])


@settings(max_examples=30, deadline=None)
@given(tables(text=TORN_WORDS), any_order(), st.sampled_from(["|", ";"]))
def test_row_with_a_torn_text_is_read_right_or_refused(table: list[Job], columns: list[str], delimiter: str) -> None:
    # Nothing typed may come from text. What cannot be told (a line break in the first column, say) is refused.
    dump = render(table, columns, delimiter)
    parsed = parse_accounting(dump, ParseContext(origin="x", delimiter=delimiter, accept_truncated=True))
    for one in parsed.frames["attempts"].to_dicts():
        want = wanted(table[int(one["job_id"]) - 1])
        assert {name: one[name] for name in want} == want
    lost = len(table) - parsed.rows_loaded
    assert bool(lost) <= bool(parsed.rows_rejected)


# --- any chunking, order, overlap and repetition ------------------------------------------------------


@st.composite
def sightings(draw: st.DrawFn) -> list[Job]:
    """Jobs as they were seen at several times: waiting, running, ended, and ended again; some were requeued."""
    seen = []
    for number in range(1, draw(st.integers(1, 4)) + 1):
        last = draw(jobs(number))
        first = draw(st.sampled_from([None, "REQUEUED", "NODE_FAIL"]))
        if first and last.wait is not None:
            before = replace(last, state=first, submit=last.submit - 200_000, run=50_000)
            seen += [before, replace(before, state="RUNNING", run=10)]
        seen += [last, replace(last, state="PENDING", wait=None, run=0, suspended=0)]
        if last.wait is not None:
            seen += [replace(last, state="RUNNING", run=run, suspended=0) for run in (0, last.run // 2)]
    return seen


def indexed(seen: Sequence[Job]) -> bytes:
    """The dump of sightings, without the database index: it would be another one for each attempt."""
    return render(seen, [*IDENTITY, *(name for name in TYPED if name != "DBIndex"), *TEXTS], "\x1f")


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_chunks_in_any_order_and_overlap_give_the_same_attempts(data: st.DataObject) -> None:
    seen = data.draw(sightings())
    whole = parse_accounting(indexed(seen), ParseContext(origin="x")).frames["attempts"]
    mixed = data.draw(st.permutations(seen))
    middle = len(mixed) // 2
    overlaps = data.draw(st.lists(st.lists(st.sampled_from(seen), min_size=1, max_size=5), max_size=2))
    loads = [load for load in data.draw(st.permutations([mixed[:middle], mixed[middle:], *overlaps])) if load]
    loaded = merge_attempts()
    for load in loads:
        loaded = merge_attempts(loaded, parse_accounting(indexed(load), ParseContext(origin="x")).frames["attempts"])
    assert same_rows(loaded, whole)
    assert same_rows(merge_attempts(loaded, whole), whole)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.permutations(range(8)))
def test_the_order_of_rows_does_not_matter(order: list[int]) -> None:
    rows = [{"JobIDRaw": str(n % 3), "DBIndex": str(n % 4), "ElapsedRaw": str(n)} for n in range(8)]
    straight, mixed = (
        parse_accounting(text(*chosen), ParseContext(origin="x")) for chosen in (rows, [rows[n] for n in order])
    )
    assert straight.frames["attempts"].sort(KEY).equals(mixed.frames["attempts"].sort(KEY))
    nodes = [on_nodes(parsed).sort(*KEY, "node") for parsed in (straight, mixed)]
    assert nodes[0].equals(nodes[1])


@settings(max_examples=30, deadline=None)
@given(
    tables(text=TORN_WORDS),
    telling_order(TEXTS),
    st.sampled_from(["|", *RARE]),
    st.integers(1, 2_000),
    st.lists(st.floats(0, 1), max_size=4),
)
def test_where_the_bytes_are_cut_into_blocks_does_not_matter(
    table: list[Job], columns: list[str], delimiter: str, block: int, cuts: list[float]
) -> None:
    dump = render(table, columns, delimiter)
    edges = sorted({0, len(dump), *(int(cut * len(dump)) for cut in cuts)})
    pieces = [dump[start:stop] for start, stop in pairwise(edges)]
    whole = read_rows(dump, ACCOUNTING, origin="x")
    parts = list(read_blocks(pieces, ACCOUNTING, origin="x", block=block))
    assert pl.concat([part.frame for part in parts]).equals(whole.frame)
    assert Counter(refused for part in parts for refused in part.refused) == Counter(whole.refused)
    assert sum(part.n_skipped for part in parts) == whole.n_skipped


@pytest.mark.slow
def test_jobs_of_this_kind_do_occur() -> None:
    """The properties above would hold of nothing: the jobs drawn are of all kinds, and their texts are torn."""
    kinds: Counter[str] = Counter()

    @settings(max_examples=60, deadline=None, database=None, derandomize=True)
    @given(tables(text=TORN_WORDS))
    def count(table: list[Job]) -> None:
        for job in table:
            kinds.update([job.state, "torn" if "\n" in job.name else "whole", str(len(job.nodes) > 1), epoch(job.gpus)])

    count()
    assert min(kinds[kind] for kind in ("RUNNING", "PENDING", "COMPLETED", "torn", "whole", "True", "False")) > 0
