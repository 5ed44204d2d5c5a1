"""Determined's allocations: what the export has, damaged exports, any order, and pods that are the same allocations."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from ingest.determined.parse import parse_allocations
from ingest.determined.store import ingest_files
from ingest.errors import MissingColumnError, UnrecognisedInputError
from ingest.kubernetes import store as kubernetes
from queries.warehouse import open_reader, open_writer
from tests.support.command import trackside
from tests.support.kubernetes.objects import NOW, as_list, at, moment, pod
from tests.support.orders import three_orders

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "allocation_id,task_type,username,workspace_name,experiment_id,slots,start_time,end_time,imagepulling_time\n"
LATER = HEADER.replace("slots,", "slots,resource_pool,")


def trial(number: int, begin: float, end: float | None, *, task: str = "7.ab-cd", slots: int = 16) -> str:
    """A row of the export."""
    times = f"{at(begin)},{at(end) if end is not None else ''}"
    return f"{task}.{number},TRIAL,ada,research,7,{slots},{times},12.500000\n"


NOTEBOOK = f"0c-de.1,NOTEBOOK,bob,,0,1,{at(0)},{at(30)},0.0\n"
FIRST = HEADER + trial(1, 0, None) + NOTEBOOK
SECOND = HEADER + trial(1, 0, 20) + trial(2, 21, None)
THIRD = HEADER + trial(2, 21, 60)


def load(root: Path, *texts: str) -> list[Any]:
    files = []
    for number, text in enumerate(texts):
        file = root.parent / f"{root.name}-{number}.csv"
        file.write_text(text)
        files.append(str(file))
    with open_writer(root, verb="test", now=NOW) as writer:
        return ingest_files(writer, files, cluster="c", now=NOW, progress=lambda *_: None)


def rows(root: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_reader(root) as reader:
        return reader.frame(sql).rows()


def reasons(text: str) -> list[str]:
    return parse_allocations(text.encode(), origin="x", cluster="c").rejects["reason"].to_list()


def test_allocations_of_a_task_are_attempts_of_one_job(tmp_path: Path) -> None:
    load(tmp_path / "w", SECOND, THIRD)
    sql = 'SELECT job_id, scheduler, "user", account, name, state, n_gpus, n_nodes, started_at, ended_at FROM attempts'
    shared = ("7.ab-cd", "determined", "ada", "research", "experiment 7", "UNKNOWN", Decimal(16), None)
    assert rows(tmp_path / "w", f"{sql} ORDER BY started_at") == [
        (*shared, moment(0), moment(20)),
        (*shared, moment(21), moment(60)),
    ]


def test_task_that_is_part_of_no_experiment_is_named_by_its_type(tmp_path: Path) -> None:
    load(tmp_path / "w", HEADER + NOTEBOOK)
    assert rows(tmp_path / "w", "SELECT name, account, n_gpus FROM attempts") == [("notebook", None, Decimal(1))]


def test_resource_pool_of_later_versions_is_the_partition() -> None:
    text = LATER + f"7.ab.1,TRIAL,ada,research,7,16,h100,{at(0)},{at(20)},0.0\n"
    frame = parse_allocations(text.encode(), origin="x", cluster="c").frames["determined_allocations"]
    assert frame["resource_pool"].to_list() == ["h100"]


@pytest.mark.slow
def test_exports_may_come_in_any_order_and_twice(tmp_path: Path) -> None:
    stored = []
    for number, order in enumerate(three_orders([FIRST, SECOND, THIRD])):
        root = tmp_path / f"w{number}"
        reports = load(root, *order, order[0])
        assert reports[-1].parsed.rows_new == 0
        stored.append(rows(root, "SELECT * FROM stored.attempts ORDER BY ALL"))
    assert all(each == stored[0] for each in stored)
    assert len(stored[0]) == 3


@pytest.mark.slow
def test_pods_of_an_allocation_are_its_attempt(tmp_path: Path) -> None:
    objects = tmp_path / "o.json"
    objects.write_bytes(as_list(pod("exp-7", ended=20, labels={"determined": "7.ab-cd.1"})))

    def load_objects(root: Path) -> None:
        with open_writer(root, verb="test", now=NOW) as writer:
            kubernetes.ingest_files(writer, [str(objects)], cluster="c", now=NOW, progress=lambda *_: None)

    before, after = tmp_path / "before", tmp_path / "after"
    load_objects(before)
    load(before, SECOND)
    load(after, SECOND)
    load_objects(after)
    for root in (before, after):
        trackside("compute", "--warehouse", str(root))
        found = rows(root, "SELECT scheduler, ended_at, node_list FROM attempts ORDER BY started_at")
        assert found == [("kubernetes", moment(20), "host-1"), ("determined", None, None)]
        whose = rows(root, "SELECT DISTINCT \"user\", account FROM attempts WHERE scheduler = 'kubernetes'")
        assert whose == rows(root, "SELECT DISTINCT \"user\", account FROM attempts WHERE scheduler = 'determined'")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (f"7.ab.1,TRIAL,ada,r,7,8,{at(0)}\n", "7 fields where the header has 9: is the file cut off?"),
        (f"7.ab.1,TRIAL,ada,r,7,many,{at(0)},,0.0\n", "slots 'many' is no number of slots"),
        (f"7.ab.1,TRIAL,ada,r,7,8,yesterday,{at(0)},0.0\n", "start_time 'yesterday' is no time"),
        (f"7.ab.1,TRIAL,ada,r,7,8,2026-10-01T00:00:00,{at(9)},0.0\n",
         "start_time '2026-10-01T00:00:00' has no offset from UTC: is the file cut off?"),
        (f"7.ab.1,TRIAL,ada,r,7,8,,{at(0)},0.0\n", "no start_time: it never got its slots"),
        (f"7.ab.1,TRIAL,ada,r,7,8,{at(9)},{at(0)},0.0\n", "end_time is before start_time"),
        (f",TRIAL,ada,r,7,8,{at(0)},{at(9)},0.0\n", "no allocation_id"),
    ],
)  # fmt: skip
def test_damaged_rows_are_refused_with_a_reason(row: str, reason: str) -> None:
    assert reasons(HEADER + trial(1, 0, 20) + row) == [reason]


def test_export_that_is_cut_anywhere_has_no_other_rows() -> None:
    whole = parse_allocations(SECOND.encode(), origin="x", cluster="c").frames["determined_allocations"].to_dicts()
    for length in range(len(HEADER), len(SECOND)):
        kept = parse_allocations(SECOND[:length].encode(), origin="x", cluster="c").frames["determined_allocations"]
        assert all(row in whole for row in kept.to_dicts()), SECOND[:length]


def test_nanoseconds_and_offsets_are_read() -> None:
    text = HEADER + "7.ab.1,TRIAL,ada,r,7,8,2026-10-01T02:00:00.123456789+02:00,,0.0\n"
    [row] = parse_allocations(text.encode(), origin="x", cluster="c").frames["determined_allocations"].to_dicts()
    assert row["started_at"] == moment(0).replace(microsecond=123456)


def test_other_export_is_refused_with_the_command() -> None:
    text = b"experiment_id,kind,username,labels,slots,start_time,end_time,seconds\n"
    with pytest.raises(UnrecognisedInputError, match="det resources allocations"):
        parse_allocations(text, origin="x", cluster="c")
    with pytest.raises(UnrecognisedInputError, match="no column allocation_id"):
        parse_allocations(b"a,b\n1,2\n", origin="x", cluster="c")
    with pytest.raises(MissingColumnError, match="no column end_time"):
        parse_allocations(b"allocation_id,slots,start_time\n", origin="x", cluster="c")


@pytest.mark.slow
def test_numbers_of_allocations_alone_are_unknown(tmp_path: Path) -> None:
    reports = load(tmp_path / "w", SECOND, THIRD)
    assert [warning.code for warning in reports[0].parsed.warnings] == ["nodes_unknown"]
    assert trackside("compute", "--warehouse", str(tmp_path / "w")).returncode == 0
    assert rows(tmp_path / "w", "SELECT count(*) FROM interruptions") == [(0,)]
    assert rows(tmp_path / "w", "SELECT count(*) FROM gpu_time") == [(0,)]
