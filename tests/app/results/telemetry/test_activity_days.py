"""What GPUs did in a part of the computed time: sums of whole days and samples at its ends, as from all samples."""

from __future__ import annotations

import shutil
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from app.compute import pipeline as computing
from app.config.settings import Config
from app.results.telemetry.activity_days import stored_activity
from app.results.telemetry.occupancy import computed_window, known
from app.window import Window
from ingest.slurm import load_files as ingesting
from ingest.tables import GPU_HOURS, GPU_SAMPLES, conform
from queries.warehouse import open_reader, open_writer
from tests.support.telemetry.activity import activity_of_samples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.results.telemetry.gpu_activity import Activity
    from queries.warehouse import Reader

NOW = datetime(2026, 9, 26, tzinfo=UTC)
MIDNIGHT = 1_789_862_400  # 2026-09-20T00:00:00Z
FIRST = date(2026, 9, 20)
HOUR, DAY = 3600, 86_400
DAYS = 5
NODES = ("n1", "n2", "n3", "n4")
ROLLED = date(2026, 9, 22)
"""The day of which only hourly roll-ups are left."""

HEADER = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|NNodes|AllocTRES"
    "|NodeList\n"
)


def at(second: int) -> datetime:
    """So many seconds after the first midnight."""
    return datetime.fromtimestamp(MIDNIGHT + second, UTC)


def job(number: int, user: str, node: str, gpus: int, *, begin: int, end: int) -> str:
    times = "|".join(str(MIDNIGHT + second) for second in (begin, begin, begin, end))
    tres = f"cpu=64,gres/gpu={gpus},node=1"
    return f"{number}|{number}|c|{user}|lab|main|train|COMPLETED|0:0|{times}|1|{tres}|{node}\n"


SACCT = (
    HEADER
    + job(1, "alice", "n1", 2, begin=0, end=DAYS * DAY)  # whole nodes, for as long as there are data
    + job(2, "alice", "n2", 1, begin=1000, end=3 * DAY + 77)  # two of one user on a node
    + job(3, "alice", "n2", 1, begin=DAY - 40, end=2 * DAY + 123)
    + job(4, "bob", "n3", 1, begin=5, end=DAYS * DAY - 9)  # a part of a node: the GPU that was busier
    + job(5, "bob", "n4", 1, begin=DAY // 2, end=3 * DAY)  # two users on a node
    + job(6, "carol", "n4", 1, begin=DAY + 333, end=3 * DAY + 20)
)


def samples() -> pl.DataFrame:
    """Every 300 s, at another second on each node; each valid up to the next, also where that is on the day after."""
    rows = [
        ("c", node, str(gpu), at(second), 420.0, busy * 0.37, 100.0 + busy * 101)
        for number, node in enumerate(NODES)
        for second in range(number * 71, DAYS * DAY, 300)
        for gpu in (0, 1)
        for busy in ((second // 7200 + gpu + second // DAY) % 3,)
    ]
    columns = ["cluster", "node", "gpu", "ts", "interval_s", "gpu_util", "power_w"]
    return conform(pl.DataFrame(rows, schema=columns, orient="row"), GPU_SAMPLES).sort("node", "gpu", "ts")


def hours() -> pl.DataFrame:
    """What is left of `ROLLED`."""
    begin = (ROLLED - FIRST).days * DAY
    rows = [
        ("c", node, str(gpu), at(begin + hour * HOUR), metric, mean, 1234.0, 3600.0)
        for node in NODES
        for gpu in (0, 1)
        for hour in range(24)
        for metric, mean in (("gpu_util", 0.25), ("power_w", 222.0), ("active", 0.3))
    ]
    columns = ["cluster", "node", "gpu", "ts", "metric", "mean", "active_s", "covered_s"]
    return conform(pl.DataFrame(rows, schema=columns, orient="row"), GPU_HOURS)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("days")
    (root / "sacct.txt").write_text(SACCT)
    settings = Config()
    with open_writer(root / "w", verb="test", now=NOW) as writer:
        ingesting.ingest_files(
            writer, settings, [str(root / "sacct.txt")], ingesting.Options(), now=NOW, progress=_silent
        )
        with writer.transaction():
            for (day,), rows in samples().group_by(pl.col("ts").dt.date(), maintain_order=True):
                assert isinstance(day, date)
                if day != ROLLED:
                    writer.write_partition("gpu_samples", "c", day, rows)
            writer.append("gpu_hours", hours())
        computing.compute(writer, settings, now=NOW)
    return root / "w"


def _silent(_what: str, _done: int, _all: int) -> None:
    pass


@pytest.fixture
def reader(warehouse: Path) -> Iterator[Reader]:
    with open_reader(warehouse) as opened:
        yield opened


def both_ways(reader: Reader, window: Window) -> tuple[Activity | None, Activity | None, tuple[str, ...]]:
    """From sums of days, from all samples, and the queries of the first."""
    facts = known(reader, "c")
    found, queries = stored_activity(reader, window, computed_window(reader, "c"), facts.rules, facts.held)
    return found, activity_of_samples(reader, window, facts), queries


def assert_same(one: pl.DataFrame, other: pl.DataFrame) -> None:
    assert_frame_equal(one, other, check_exact=True, check_row_order=False, check_column_order=False)


def between(since: int, until: int) -> Window:
    return Window("c", at(since), at(until))


EDGES = (0, 45, DAY - 40, DAY, DAY + 170, DAY + HOUR, 2 * DAY, 2 * DAY + 7777, 3 * DAY, 3 * DAY + HOUR, 4 * DAY,
         DAYS * DAY)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("since", EDGES[:-1])
def test_days_and_ends_give_what_all_samples_give(reader: Reader, since: int) -> None:
    later = [moment for moment in (*EDGES, DAYS * DAY + HOUR) if moment > since]
    for until in dict.fromkeys((*later[:2], *later[2::4], later[-1])):
        found, expected, _ = both_ways(reader, between(since, until))
        assert (found is None) == (expected is None), (since, until)
        if found is not None and expected is not None:
            assert_same(found.attempts, expected.attempts)
            assert_same(found.users, expected.users)


def test_whole_days_are_read_from_their_sums(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[datetime, datetime]] = []
    query = type(reader).query

    def noted(self: Reader, name: str, **params: object) -> pl.DataFrame:
        if name == "gpu_samples_between":
            asked.append((params["since"], params["until"]))  # type: ignore[arg-type]  # moments
        return query(self, name, **params)

    whole = computed_window(reader, "c")
    facts = known(reader, "c")
    monkeypatch.setattr(type(reader), "query", noted)
    tail = Window("c", at(3 * DAY + 6 * HOUR), whole.until)
    _, queries = stored_activity(reader, tail, whole, facts.rules, facts.held)
    assert queries[0] == "attempt_activity_days"
    assert reader.query("activity_days", cluster="c").filter("hourly")["day"].to_list() == [ROLLED]
    read = sum((until - since for since, until in asked), timedelta())
    assert read <= timedelta(hours=20), "the rest of the 23rd and the hour after midnight, not the 24th"


LOADED = date(2026, 9, 21)


@pytest.mark.slow
def test_a_day_that_was_loaded_again_is_read_anew(reader: Reader, tmp_path: Path, warehouse: Path) -> None:
    shutil.copytree(warehouse, tmp_path / "w")
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer, writer.transaction():
        rows = samples().filter(pl.col("ts").dt.date() == LOADED, pl.col("node") != "n1")
        writer.write_partition("gpu_samples", "c", LOADED, rows)
    window = between(0, DAYS * DAY)  # samples of the day before are valid for longer, too
    before, _, _ = both_ways(reader, window)
    with open_reader(tmp_path / "w") as later:
        found, expected, queries = both_ways(later, window)
    assert before is not None
    assert found is not None
    assert expected is not None
    assert queries[0] == "attempt_activity_days"
    assert_same(found.attempts, expected.attempts)
    assert found.attempts["observed_s"].sum() < before.attempts["observed_s"].sum()


@pytest.mark.slow
def test_a_day_whose_roll_ups_were_removed_is_no_longer_counted(tmp_path: Path, warehouse: Path) -> None:
    shutil.copytree(warehouse, tmp_path / "w")
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer, writer.transaction():
        writer.delete("gpu_hours", pl.DataFrame({"cluster": ["c"]}))
    with open_reader(tmp_path / "w") as later:
        found, expected, queries = both_ways(later, between(0, DAYS * DAY))
    assert found is not None
    assert expected is not None
    assert queries[0] == "attempt_activity_days"
    assert_same(found.attempts, expected.attempts)
