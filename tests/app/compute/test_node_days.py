"""Stored sums of what nodes did: the same answers as from samples, and only days that changed are made."""

from __future__ import annotations

import random
import shutil
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from app.compute import node_days as making
from app.compute.pipeline import compute
from app.config.settings import Config, Rules
from app.results.telemetry import node_days
from app.results.telemetry.node_activity import node_activity
from app.results.telemetry.node_days import ATTEMPTS, NODES, StoredDays
from app.results.telemetry.occupancy import computed_window, known
from app.window import Window
from ingest.slurm import load_files as ingesting
from ingest.tables import NODE_HOURS, NODE_SAMPLES, conform
from metrics import frames
from metrics.telemetry.occupancy import occupants
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    from pathlib import Path

    from metrics.telemetry.occupancy import Occupants
    from queries.warehouse import Reader, Writer

pytestmark = pytest.mark.usefixtures("no_results")

NOW = datetime(2026, 9, 26, tzinfo=UTC)
MIDNIGHT = 1_789_862_400  # 2026-09-20T00:00:00Z
FIRST = date(2026, 9, 20)
HOUR, DAY = 3600, 86_400
DAYS = 4
NODES_THERE = ("n1", "n2", "n3")
ROLLED = 2
"""The day of which there are hourly roll-ups, and no samples at first."""
SERIES = (("fs_operations_per_s", "/data"), ("ib_received_bytes_per_s", "mlx5_0/1"))
HEADER = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Eligible|Start|End|NNodes|AllocTRES"
    "|NodeList\n"
)


def at(second: int) -> datetime:
    """So many seconds after the first midnight."""
    return datetime.fromtimestamp(MIDNIGHT + second, UTC)


def job(number: int, user: str, node: str, *, begin: int, end: int, name: str = "train") -> str:
    times = "|".join(str(MIDNIGHT + second) for second in (begin, begin, begin, end))
    tres = "cpu=4,gres/gpu=1,node=1"
    return f"{number}|{number}|c|{user}|lab|main|{name}|COMPLETED|0:0|{times}|1|{tres}|{node}\n"


JOBS = (
    job(1, "alice", "n1", begin=0, end=DAYS * DAY)
    + job(2, "alice", "n2", begin=1000, end=2 * DAY + 77)  # two of one user, one after the other
    + job(3, "alice", "n2", begin=2 * DAY + 77, end=3 * DAY)
    + job(4, "bob", "n3", begin=DAY // 2, end=3 * DAY + 60)  # two users, and a check between
    + job(5, "carol", "n3", begin=DAY + 333, end=2 * DAY + HOUR)
    + job(6, "root", "n3", begin=3 * DAY + 100, end=3 * DAY + 900, name="hpc-verification")
)


def samples(day: int, seed: int = 0) -> pl.DataFrame:
    """Every half an hour, at another second on each node; each valid up to the next, also where that is a day later."""
    chance = random.Random(f"{day} {seed}")
    rows = [
        ("c", node, metric, device, at(second), 2000.0, chance.random() * 1e9)
        for number, node in enumerate(NODES_THERE)
        for metric, device in SERIES
        for second in range(day * DAY + number * 71, (day + 1) * DAY, 1800)
    ]
    columns = ["cluster", "node", "metric", "device", "ts", "interval_s", "value"]
    return conform(pl.DataFrame(rows, schema=columns, orient="row"), NODE_SAMPLES)


def hours() -> pl.DataFrame:
    rows = [
        ("c", node, metric, device, at(ROLLED * DAY + hour * HOUR), 0.1 + hour, 3600.0)
        for node in NODES_THERE
        for metric, device in SERIES
        for hour in range(24)
    ]
    columns = ["cluster", "node", "metric", "device", "ts", "mean", "covered_s"]
    return conform(pl.DataFrame(rows, schema=columns, orient="row"), NODE_HOURS)


def write(writer: Writer, day: int, rows: pl.DataFrame) -> None:
    with writer.transaction():
        writer.write_partition("node_samples", "c", FIRST + timedelta(days=day), rows)


def load(writer: Writer, file: Path, jobs: str) -> None:
    file.write_text(HEADER + jobs)
    options = ingesting.Options()
    ingesting.ingest_files(writer, Config(), [str(file)], options, now=NOW, progress=lambda *_: None)


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("node_days")
    with open_writer(place / "w", verb="test", now=NOW) as writer:
        load(writer, place / "jobs", JOBS)
        for day in range(DAYS):
            if day != ROLLED:
                write(writer, day, samples(day))
        with writer.transaction():
            writer.append("node_hours", hours())
        compute(writer, Config(), now=NOW)
    return place / "w"


@pytest.fixture
def root(computed: Path, tmp_path: Path) -> Path:
    shutil.copytree(computed, tmp_path / "w")
    return tmp_path / "w"


def made(writer: Writer, settings: Config | None = None, *, full: bool = False) -> list[int]:
    """Compute, and return the days of which sums were made."""
    days: list[int] = []
    original = node_days.stored_rows
    with pytest.MonkeyPatch.context() as patch:

        def noted(day: date, *rest: object) -> dict[str, pl.DataFrame]:
            days.append((day - FIRST).days)
            return original(day, *rest)  # type: ignore[arg-type]  # as they came

        patch.setattr(making, "stored_rows", noted)
        compute(writer, settings or Config(), now=NOW, full=full)
    return sorted(days)


TABLES = (NODES, ATTEMPTS, "node_activity_days", "attempt_node_activity")


def tables(reader: Reader | Writer) -> dict[str, pl.DataFrame]:
    return {name: (rows := reader.table(name)).sort(rows.columns) for name in TABLES}


def owners(reader: Reader) -> tuple[Occupants, pl.DataFrame]:
    facts = known(reader, "c")
    attempts = facts.attempts.select(*frames.ATTEMPT_KEY, pl.col("attempt").alias("owner"), "verification")
    return occupants(facts.on_nodes, attempts, facts.covered), attempts


EDGES = (0, 1234, DAY + HOUR, 3 * DAY - 60, DAYS * DAY)


def assert_as_from_samples(root: Path) -> None:
    """Days and ends of windows give what all their samples give, to the last bit."""
    with open_reader(root) as reader:
        who, attempts = owners(reader)
        computed = computed_window(reader, "c")
        for since, until in ((low, high) for low in EDGES for high in EDGES if low < high):
            window = Window("c", at(since), at(until))
            expected = node_activity(reader, window, who)
            days = StoredDays.within(reader, window, computed)
            nodes, _ = days.nodes(lambda: who, metrics=())
            of_attempts, _ = days.attempts(who, attempts)
            assert (expected is None) == (nodes is None), (since, until)
            if expected is not None:
                assert nodes is not None
                assert_frame_equal(nodes, expected.nodes, check_exact=True)
                if of_attempts is None:
                    assert expected.owners.is_empty()
                else:
                    assert_frame_equal(of_attempts, expected.owners, check_exact=True)


@pytest.mark.slow
def test_node_days_are_read_for_whole_days_of_windows(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_as_from_samples(root)
    with open_reader(root) as reader:
        computed = computed_window(reader, "c")
        part = StoredDays.within(reader, Window("c", at(1234), computed.until), computed)
        assert sorted(part.rows) == [FIRST + timedelta(days=day) for day in (1, 2, 3)]
        monkeypatch.setattr(node_days, "samples_of_days", None)  # no sample is read
        nodes, queries = StoredDays.within(reader, computed, computed).nodes(lambda: owners(reader)[0], metrics=())
        assert nodes is not None
        assert queries == (NODES,)


@pytest.mark.slow
def test_node_days_that_did_not_change_are_kept(root: Path, tmp_path: Path) -> None:
    with open_writer(root, verb="test", now=NOW) as writer:
        write(writer, 3, samples(3).filter(pl.col("ts") >= at(3 * DAY + 2 * HOUR)))  # so day 2 lasts longer
        assert made(writer) == [2, 3]
        write(writer, 3, samples(3).filter(pl.col("ts") >= at(3 * DAY + HOUR)))
        assert made(writer) == [3]  # the next day's later hours are nothing to a day
        load(writer, tmp_path / "late", job(9, "dora", "n2", begin=DAY + 4000, end=DAY + 9000))
        assert made(writer) == [1]
        other = Config(rules=Rules(other_work={"verification": "no such job"}))
        assert made(writer, other) == [2, 3]  # the check begins in the hour after day 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_node_days_after_any_changes_are_those_of_full(root: Path, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(2):
        day = chance.randrange(DAYS)
        with open_writer(root, verb="test", now=NOW) as writer:
            match chance.choice(["replaced", "removed", "job", "longer", "hours"]):
                case "replaced":
                    kept = samples(day, number).sample(fraction=chance.choice([0.5, 1.0]), seed=seed)
                    write(writer, day, kept.sort("node", "metric", "device", "ts"))
                case "removed":
                    with writer.transaction():
                        writer.remove_partition("node_samples", "c", FIRST + timedelta(days=day))
                case "job":
                    begin = day * DAY + chance.randrange(DAY)
                    node = chance.choice(NODES_THERE)
                    end = min(begin + chance.randrange(1, DAY), DAYS * DAY)
                    load(writer, tmp_path / "jobs", job(20 + number, chance.choice("ab"), node, begin=begin, end=end))
                case "longer":  # accounting corrects an end
                    load(writer, tmp_path / "jobs", job(5, "carol", "n3", begin=DAY + 333, end=3 * DAY + 1000))
                case _:
                    with writer.transaction():
                        gone = pl.DataFrame({"cluster": ["c"], "node": [chance.choice(NODES_THERE)]})
                        writer.delete("node_hours", gone)
            compute(writer, Config(), now=NOW)
            kept_days = tables(writer)
            compute(writer, Config(), now=NOW, full=True)
            for name, rows in tables(writer).items():
                assert_frame_equal(kept_days[name], rows, check_exact=True)
        assert_as_from_samples(root)


@pytest.mark.slow
def test_node_days_are_not_read_after_a_later_change(root: Path, tmp_path: Path) -> None:
    with open_writer(root, verb="test", now=NOW) as writer:
        load(writer, tmp_path / "late", job(9, "dora", "n2", begin=DAY + 4000, end=DAY + 9000))
    assert_as_from_samples(root)
    with open_reader(root) as reader:
        computed = computed_window(reader, "c")
        assert StoredDays.within(reader, computed, computed).rows == {}


@pytest.mark.slow
def test_node_days_go_with_their_telemetry(root: Path) -> None:
    with open_writer(root, verb="test", now=NOW) as writer:
        with writer.transaction():
            for day in range(DAYS):
                writer.remove_partition("node_samples", "c", FIRST + timedelta(days=day))
            writer.delete("node_hours", pl.DataFrame({"cluster": ["c"]}))
        compute(writer, Config(), now=NOW)
        assert all(rows.is_empty() for rows in tables(writer).values())


@pytest.mark.slow
def test_node_days_that_are_damaged_are_made_again(root: Path) -> None:
    for file in (root / "raw" / ATTEMPTS).rglob("*.parquet"):
        file.write_bytes(b"no Parquet")
    with open_writer(root, verb="test", now=NOW) as writer:
        write(writer, 0, samples(0, 1))
        assert made(writer)[-DAYS:]
    assert_as_from_samples(root)
