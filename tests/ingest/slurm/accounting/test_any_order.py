"""Accounting in any order, with any overlap and any columns makes the warehouse that one whole dump makes.

Real captures are cut into dumps: random rows, random columns, random order, one loaded after another. What must come
out is what one dump makes that has every value that any of them has:

- the same attempts, under the same keys. A job that every dump knows by one id only, some by JobID and some by
  JobIDRaw, is two unless a row has both, or DBIndex links a started attempt of one dump with that of another;
- the id that people see, of each attempt that any dump with JobID has;
- of an attempt that has ended, every value, whichever dump has its column. A column that no dump has is null;
- of an attempt that has not ended, state, times and holdings: its other columns are those of the dump that shows it
  longest, and a dump without Elapsed does not tell how long.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.context import ParseContext
from ingest.slurm.accounting.sacct import parse_accounting
from ingest.slurm.accounting.store import AttemptWriter
from ingest.tables import ATTEMPT_KEY
from queries.warehouse import open_writer
from tests.support.slurm.parsing import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from queries.warehouse import Writer

NOW = datetime(2026, 12, 1, tzinfo=UTC)
REQUIRED = ("Submit", "Start", "End", "State", "NodeList", "AllocTRES")
IDS = ("JobID", "JobIDRaw")
OPEN_COLUMNS = (*ATTEMPT_KEY, "state", "started_at", "ended_at", "node_list", "n_nodes", "n_gpus", "first_submitted_at")
MARK = "\x1f"

Row = dict[str, str]


class Capture(NamedTuple):
    """What sacct printed of jobs (no steps), row by row."""

    name: str

    columns: tuple[str, ...]
    rows: list[Row]
    cluster: str | None

    def __repr__(self) -> str:
        return self.name


class Dump(NamedTuple):
    """Some rows of a capture, by number, and some of its columns."""

    rows: tuple[int, ...]
    columns: tuple[str, ...]


def read(name: str) -> Capture:
    header, *lines = (DATA / name).read_text().splitlines()
    mark = MARK if MARK in header else "|"
    columns = tuple(dict.fromkeys(header.split(mark)))
    whole = [line.split(mark) for line in lines if line.count(mark) == header.count(mark)]
    rows = [dict(zip(header.split(mark), fields, strict=True)) for fields in whole]
    jobs = [row for row in rows if "." not in row["JobID"]]
    clusters = {row.get("Cluster", "c1") for row in jobs}
    return Capture(name, columns, jobs, clusters.pop() if len(clusters) == 1 else None)


CAPTURES = [
    read(f"{name}.sacct.txt") for name in ("kinds", "states", "het", "federation", "kill-requeue", "jobs-as-text")
]


def as_arrays(capture: Capture) -> Capture:
    """The same jobs as tasks of one array, requeued or not: no capture has a task that was requeued."""
    rows = [row | {"JobID": f"900_{row['JobID']}"} if row["JobID"].isdigit() else row for row in capture.rows]
    return capture._replace(name=f"{capture.name} as arrays", rows=rows)


@st.composite
def dumps(draw: st.DrawFn) -> tuple[Capture, list[Dump]]:
    capture = draw(st.sampled_from(CAPTURES))
    if draw(st.booleans()):
        capture = as_arrays(capture)
    first = draw(st.integers(0, max(len(capture.rows) - 8, 0)))
    few = range(first, min(first + 8, len(capture.rows)))
    always = {*REQUIRED, *([] if capture.cluster else ["Cluster"])}
    free = [name for name in capture.columns if name not in {*always, *IDS}]
    made = []
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(st.lists(st.sampled_from(few), min_size=1, max_size=12))
        ids = draw(st.sampled_from([IDS, IDS[:1], IDS[1:]]))
        some = draw(st.sets(st.sampled_from(free)) | st.just(set(free))) if free else set()
        columns = draw(st.permutations([*ids, *sorted(always), *sorted(some)]))
        made.append(Dump(tuple(rows), tuple(columns)))
    return capture, made


def text(rows: Sequence[Row], columns: Sequence[str]) -> bytes:
    lines = [MARK.join(columns), *(MARK.join(row.get(name, "") for name in columns) for row in rows)]
    return "\n".join([*lines, ""]).encode()


def loaded(writer: Writer, texts: Sequence[bytes], cluster: str | None) -> pl.DataFrame:
    """The attempts that the texts make, one loaded after another."""
    for table in ("stored.attempts", "resubmissions"):
        writer.delete(table, writer.table(table.removeprefix("stored.")).select("cluster").unique())
    for each in texts:
        parsed = parse_accounting(each, ParseContext(origin="jobs.txt", cluster=cluster))
        assert parsed.rejects["reason"].to_list() == []
        with writer.transaction():
            attempts = AttemptWriter(writer)
            attempts.add(parsed.frames["attempts"])
            attempts.finish()
    return writer.table("attempts").sort(ATTEMPT_KEY)


def linked_rows(capture: Capture, made: Sequence[Dump]) -> set[int]:
    """Rows of which a dump has both ids, or one dump JobID, another JobIDRaw, and both DBIndex of the started job."""
    both = {number for dump in made if {*IDS} <= {*dump.columns} for number in dump.rows}
    by_one = [
        {number for dump in made if columns == {*IDS} & {*dump.columns} for number in dump.rows}
        for columns in ({"JobID"}, {"JobIDRaw"})
    ]
    indexed = [{number for dump in made if {one, "DBIndex"} <= {*dump.columns} for number in dump.rows} for one in IDS]
    started = {number for number, row in enumerate(capture.rows) if row["Start"].isdigit()}
    return both | (by_one[0] & by_one[1] & indexed[0] & indexed[1] & started)


def everything(capture: Capture, made: Sequence[Dump]) -> bytes:
    """One dump with all that the others have."""
    job = [(row.get("Cluster"), row["JobIDRaw"]) for row in capture.rows]
    linked = {job[number] for number in linked_rows(capture, made)}
    by_job_id = {number for dump in made if "JobID" in dump.columns for number in dump.rows}
    rows: dict[tuple[int, str], Row] = {}
    for dump in made:
        for number in dump.rows:
            row = capture.rows[number]
            known = job[number] in linked or "JobIDRaw" in dump.columns
            key = row["JobIDRaw"] if known else row["JobID"]
            with_shown = "JobID" in dump.columns or (job[number] in linked and number in by_job_id)
            shown = row["JobID"] if with_shown else key
            merged = rows.setdefault((number, key), {})
            merged |= {name: row[name] for name in dump.columns} | {"JobIDRaw": key, "JobID": shown}
    columns = dict.fromkeys((*IDS, *(name for dump in made for name in dump.columns)))
    return text(list(rows.values()), tuple(columns))


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    with open_writer(tmp_path_factory.mktemp("any"), verb="test", now=NOW) as opened:
        yield opened


@pytest.mark.slow
@settings(max_examples=16)
@given(dumps())
def test_dumps_in_any_order_overlap_and_columns_equal_one_whole(
    writer: Writer, requested: tuple[Capture, list[Dump]]
) -> None:
    capture, made = requested
    texts = [text([capture.rows[number] for number in dump.rows], dump.columns) for dump in made]

    whole = loaded(writer, [everything(capture, made)], capture.cluster)
    result = loaded(writer, texts, capture.cluster)
    again = loaded(writer, [*reversed(texts), *texts[:1]], capture.cluster)

    assert differences(result, again) == []
    open_ones = whole["ended_at"].is_null() | whole["end_guessed"].fill_null(value=False)
    assert differences(result.select(OPEN_COLUMNS), whole.select(OPEN_COLUMNS)) == []
    assert differences(result.filter(~open_ones), whole.filter(~open_ones)) == []


def differences(one: pl.DataFrame, other: pl.DataFrame) -> list[object]:
    """Keys that only one has, else values that differ: attempt, column, value here, value there."""
    keys = [frame.select(ATTEMPT_KEY).rows() for frame in (one, other)]
    if keys[0] != keys[1]:
        return [("keys", keys)]
    return [
        (key, name, a, b)
        for name in one.columns
        for key, a, b in zip(keys[0], one[name], other[name], strict=True)
        if a != b
    ]
