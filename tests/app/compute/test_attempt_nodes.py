"""Attempts on nodes, read in part: what a computation asks of them it gets as from all of them."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from app.compute.attempt_nodes import AttemptNodes
from metrics import frames
from metrics.ledger.capacity import inventory
from queries.warehouse import open_writer
from tests.metrics.tables import rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queries.warehouse import Writer

NOW = datetime(2026, 11, 2, 3, 4, 5, tzinfo=UTC)
BEGIN = datetime(2026, 9, 1, tzinfo=UTC)
KEY = list(frames.ATTEMPT_KEY)
LISTS = {"n1": ["n1"], "n[1-2]": ["n1", "n2"], "n[2-4]": ["n2", "n3", "n4"], "n[1-5]": ["n1", "n2", "n3", "n4", "n5"]}
NO_OTHER_WORK = frames.empty({name: frames.ATTEMPTS[name] for name in KEY} | {"kind": frames.TEXT})


@dataclass(frozen=True)
class Recorded:
    """What accounting records of an attempt; times in hours."""

    node_list: str
    n_gpus: str | None
    gpus_steps: str | None
    start: int | None
    hours: int | None
    suspended_s: float | None
    end_guessed: bool | None
    placed: bool


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    with open_writer(tmp_path_factory.mktemp("w"), verb="test", now=NOW) as opened:
        with opened.transaction():
            lists = {"node_list": list(LISTS), "nodes": list(LISTS.values())}
            opened.append("node_lists", pl.DataFrame(lists))
        yield opened


def store(writer: Writer, attempts: Sequence[Recorded]) -> None:
    """Have these be the cluster's attempts."""
    cluster = pl.DataFrame({"cluster": ["c"]})
    reported = [row(number, each) for number, each in enumerate(attempts)]
    placed = [
        place(each) for each, recorded in zip(reported, attempts, strict=True) if recorded.placed and each["started_at"]
    ]
    with writer.transaction():
        for table in ("stored.attempts", "placements"):
            writer.delete(table, cluster)
        writer.append("stored.attempts", pl.DataFrame(reported, schema=ROW))
        writer.append("placements", pl.DataFrame(placed, schema=PLACEMENT))


def row(number: int, recorded: Recorded) -> dict[str, object]:
    start = None if recorded.start is None else BEGIN + timedelta(hours=recorded.start)
    end = None if start is None or recorded.hours is None else start + timedelta(hours=recorded.hours)
    gpus = {name: None if each is None else Decimal(each)
            for name, each in (("n_gpus", recorded.n_gpus), ("gpus_steps", recorded.gpus_steps))}  # fmt: skip
    key = {"cluster": "c", "scheduler": "slurm", "job_id": str(number), "submitted_at": BEGIN, "state": "COMPLETED"}
    times = {
        "started_at": start,
        "ended_at": end,
        "end_guessed": recorded.end_guessed,
        "suspended_s": recorded.suspended_s,
    }
    return key | times | gpus | {"node_list": recorded.node_list, "n_nodes": len(LISTS[recorded.node_list])}


def place(reported: dict[str, object]) -> dict[str, object]:
    """A placement of an attempt long after it began, which has not ended."""
    start = reported["started_at"]
    assert isinstance(start, datetime)
    kept = {name: reported[name] for name in (*KEY, "n_gpus")}
    return kept | {"node": "n9", "started_at": start + timedelta(hours=40)}


_GPUS = pl.Decimal(12, 3)
ROW = {name: frames.ATTEMPTS[name] for name in KEY} | {
    "state": frames.TEXT, "started_at": frames.TIME, "ended_at": frames.TIME, "end_guessed": frames.FLAG,
    "suspended_s": frames.NUMBER, "n_gpus": _GPUS, "gpus_steps": _GPUS, "node_list": frames.TEXT,
    "n_nodes": frames.COUNT,
}  # fmt: skip
PLACEMENT = {name: ROW[name] for name in (*KEY, "n_gpus")} | {"node": frames.TEXT, "started_at": frames.TIME}


def on_nodes(writer: Writer) -> AttemptNodes:
    return AttemptNodes(writer, "c", frames.conform(writer.query("attempts", cluster="c"), frames.ATTEMPTS))


def in_order(table: pl.DataFrame) -> pl.DataFrame:
    return table.sort(table.columns, nulls_last=True)


ATTEMPTS = st.builds(
    Recorded,
    node_list=st.sampled_from(list(LISTS)),
    n_gpus=st.sampled_from([None, "0", "1", "2", "8", "0.002", "2.5"]),
    gpus_steps=st.sampled_from([None, "2", "8"]),
    start=st.one_of(st.none(), st.integers(0, 60)),
    hours=st.one_of(st.none(), st.integers(0, 40)),
    suspended_s=st.sampled_from([None, 0.0, 90.5]),
    end_guessed=st.sampled_from([None, True]),
    placed=st.sampled_from([False, False, False, True]),
)
QUICKLY = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@QUICKLY
@given(st.lists(ATTEMPTS, min_size=1, max_size=6), st.integers(0, 80), st.integers(1, 30))
def test_what_is_read_in_part_is_what_all_rows_have(
    writer: Writer, attempts: list[Recorded], first: int, hours: int
) -> None:
    store(writer, attempts)
    since, until = BEGIN + timedelta(hours=first), BEGIN + timedelta(hours=first + hours)
    with writer.views_computed_once():
        every = on_nodes(writer).every()
        some = every.select(KEY).unique().head(2)
        found = on_nodes(writer).of(some).join(some, on=KEY, how="semi")
        assert in_order(found).equals(in_order(every.join(some, on=KEY, how="semi")))
        held = every.filter(
            pl.col("milli_gpus").ne_missing(0),
            pl.col("started_at") < until,
            pl.col("ended_at").is_null() | (pl.col("ended_at") > since),
        )
        assert held.join(
            on_nodes(writer).holding(since, until), on=every.columns, how="anti", nulls_equal=True
        ).is_empty()


@pytest.mark.slow
@QUICKLY
@given(
    st.lists(ATTEMPTS, min_size=1, max_size=6),
    st.lists(
        st.tuples(
            st.sampled_from(["n1", "n2", "n3", "n9"]), st.integers(0, 20), st.one_of(st.none(), st.integers(21, 60))
        ),
        max_size=3,
        unique_by=lambda each: each[0],
    ),
)
def test_the_inventory_follows_from_what_is_seen_of_nodes(
    writer: Writer, attempts: list[Recorded], observed: list[tuple[str, int, int | None]]
) -> None:
    store(writer, attempts)
    covered = rows(frames.COVERAGE, {"cluster": "c", "started_at": BEGIN, "ended_at": BEGIN + timedelta(hours=99)})
    nodes = rows(frames.NODES, *(
        {"cluster": "c", "node": node, "milli_gpus": 8000} | {
            name: None if hour is None else BEGIN + timedelta(hours=hour)
            for name, hour in (("valid_from", low), ("last_seen_at", low), ("gone_at", gone))
        }
        for node, low, gone in observed
    ))  # fmt: skip
    states = frames.empty(frames.NODE_STATES)
    with writer.views_computed_once():
        known = on_nodes(writer)
        assert inventory(nodes, known.presence(nodes), states, covered).equals(
            inventory(nodes, known.every(), states, covered)
        )


@pytest.mark.slow
@QUICKLY
@given(st.lists(ATTEMPTS, min_size=1, max_size=4), ATTEMPTS, st.integers(0, 3))
def test_held_times_change_with_what_an_attempt_held(
    writer: Writer, attempts: list[Recorded], other: Recorded, place: int
) -> None:
    one = attempts[place % len(attempts)]
    changed = replace(one, n_gpus=other.n_gpus, gpus_steps=other.gpus_steps, node_list=other.node_list,
                      end_guessed=other.end_guessed)  # fmt: skip
    assume(astuple(changed) != astuple(one))
    kept, held = [], []
    for recorded in (attempts, [changed if each is one else each for each in attempts]):
        store(writer, recorded)
        with writer.views_computed_once():
            known = on_nodes(writer)
            kept.append(in_order(known.every().filter(pl.col("milli_gpus").ne_missing(0))))
            held.append(known.held_times(NO_OTHER_WORK)["digest"].sort())
    assert kept[0].equals(kept[1]) or not held[0].equals(held[1])
    assert len(held[0]) >= kept[0].select(KEY).n_unique()


def test_held_times_change_with_what_an_attempt_does(writer: Writer) -> None:
    store(writer, [Recorded("n1", "8", None, 0, 1, None, None, placed=False)])
    with writer.views_computed_once():
        known = on_nodes(writer)
        trying = known.every().select(KEY).with_columns(kind=pl.lit("trying"))
        plain, other = (known.held_times(each)["digest"].to_list() for each in (NO_OTHER_WORK, trying))
    assert plain != other
