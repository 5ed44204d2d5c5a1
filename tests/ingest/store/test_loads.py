"""Nothing is lost and nothing doubled: repeats, halves, any order. Kills: `test_kills`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.command import assert_same, contents, trackside
from tests.support.slurm.dumps import Dump, rows_of, tiny, with_rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def dump() -> Dump:
    return tiny()


def load(warehouse: Path, *batches: list[str]) -> Path:
    for files in batches:
        done = trackside("ingest", "slurm", "--warehouse", str(warehouse), *files)
        assert done.returncode == 0, done.stderr
    done = trackside("compute", "--warehouse", str(warehouse))
    assert done.returncode == 0, done.stderr
    return warehouse


@pytest.fixture(scope="module")
def reference(dump: Dump, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    return load(folder / "w", dump.write(folder))


def test_the_reference_is_worth_comparing_with(reference: Path) -> None:
    result = contents(reference)
    assert result["attempts"].height > 300
    assert {"NODE_FAIL", "RUNNING"} <= set(result["attempts"]["state"])
    assert result["gpu_time"].height > result["attempts"].height
    assert result["restarts"].height > 10


@pytest.mark.slow
def test_twice_equals_once(dump: Dump, reference: Path, tmp_path: Path) -> None:
    files = dump.write(tmp_path)
    assert_same(load(tmp_path / "w", files, files), reference)


@pytest.mark.slow
def test_overlapping_halves_equal_the_whole(dump: Dump, reference: Path, tmp_path: Path) -> None:
    rows = rows_of(dump.accounting)
    middle = len(rows) // 2
    rest = dump.write(tmp_path)[1:]
    (tmp_path / "first.txt").write_text(with_rows(rows[: middle + 40]))
    (tmp_path / "second.txt").write_text(with_rows(rows[middle - 40 :]))
    halves = [str(tmp_path / "second.txt"), str(tmp_path / "first.txt")]
    assert_same(load(tmp_path / "w", halves[:1], rest, halves[1:]), reference)


@pytest.mark.slow
def test_reverse_order_equals_order(dump: Dump, reference: Path, tmp_path: Path) -> None:
    backwards = Dump(
        with_rows(rows_of(dump.accounting)[::-1]),
        "\n".join([dump.events.splitlines()[0], *dump.events.splitlines()[:0:-1]]) + "\n",
        "\n".join(dump.nodes.splitlines()[::-1]) + "\n",
        dump.config,
    )
    assert_same(load(tmp_path / "w", backwards.write(tmp_path)[::-1]), reference)


@pytest.mark.slow
def test_an_older_dump_loaded_later_takes_nothing_back(dump: Dump, reference: Path, tmp_path: Path) -> None:
    files = dump.write(tmp_path)
    older = []
    for row in rows_of(dump.accounting):
        cells = row.split("|")
        if cells[15] == "COMPLETED" and int(cells[0]) % 3 == 0:  # as it was seen while it still ran
            cells[12], cells[15], cells[13] = "Unknown", "RUNNING", str(int(cells[13]) // 2)
        older.append("|".join(cells))
    (tmp_path / "older.txt").write_text(with_rows(older))
    assert_same(load(tmp_path / "w", files, [str(tmp_path / "older.txt")]), reference)


def test_events_that_name_their_cluster_need_no_other_to_name_it(tmp_path: Path) -> None:
    events = tmp_path / "events.txt"
    events.write_text(
        "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\nc9|n1|1795247000|1795247100|DOWN|dead|root\n"
    )

    alone = trackside("ingest", "slurm", "--until", "2026-12-01", "--warehouse", str(tmp_path / "w"), str(events))
    other = trackside("ingest", "slurm", "--cluster", "c8", "--warehouse", str(tmp_path / "w"), str(events))

    assert alone.returncode == 0, alone.stderr
    assert "warning" not in alone.stdout + alone.stderr
    assert "rows name other clusters than c8: c9" in other.stdout + other.stderr
