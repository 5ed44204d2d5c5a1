"""Damage to any file of a warehouse is detected or harmless, and never a number that is wrong without a word.

A case takes a file of some kind, flips a bit of it, cuts it off, overwrites a sector with zeros or deletes it. Then
everything is read, a writer writes, and everything is read again: each step gives the very rows that were written, or
refuses. TRACKSIDE_DAMAGES=500 runs so many cases, with TRACKSIDE_SEED for others.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.service import integrity
from queries import directory
from queries.errors import CorruptWarehouseError
from queries.warehouse import open_reader, open_writer
from tests.queries.killed_writers import killed_writer
from tests.queries.test_warehouse import NOW, users

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = int(os.environ.get("TRACKSIDE_DAMAGES", "24"))
SEED = int(os.environ.get("TRACKSIDE_SEED", "14"))
FIRST = date(2026, 10, 29)
DAYS = 3
KINDS = ("samples", "steps", "database", "published", "published before", "write-ahead log", "lock", "current")


def day_of(number: int) -> datetime:
    return datetime.combine(FIRST + timedelta(days=number), datetime.min.time(), UTC)


def samples(number: int) -> pl.DataFrame:
    chance = random.Random(number)
    return pl.DataFrame(
        {
            "cluster": "c",
            "node": [f"n{each % 7}" for each in range(3000)],
            "gpu": "0",
            "ts": [day_of(number) + timedelta(seconds=20 * each) for each in range(3000)],
            "gpu_util": pl.Series([chance.random() for _ in range(3000)], dtype=pl.Float32),
        }
    ).with_columns(pl.col("ts").dt.cast_time_unit("us"))


def steps(number: int) -> pl.DataFrame:
    ts = [day_of(number) + timedelta(seconds=60 * each) for each in range(500)]
    rows = {"cluster": "c", "run_id": "r", "scheduler": "slurm", "job_id": "1", "step": list(range(500)), "ts": ts}
    return pl.DataFrame({**rows, "duration_s": 1.0 + number}).with_columns(pl.col("ts").dt.cast_time_unit("us"))


def write(root: Path, number: int) -> None:
    with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
        writer.append("users", users(*(f"user{number}-{each}" for each in range(2000))))
        writer.write_partition("gpu_samples", "c", FIRST + timedelta(days=number), samples(number))
        writer.write_partition("steps", "c", FIRST + timedelta(days=number), steps(number))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse whose last writer was killed: its write-ahead log has a load that is not published yet."""
    root = tmp_path_factory.mktemp("flips") / "w"
    for number in range(DAYS):
        write(root, number)
    killed_writer(root)
    root.rename(root.parent / "as it was")
    return root


def anew(root: Path) -> None:
    """Put the warehouse back as it was built; what is never changed in place is linked."""

    def link(source: str, to: str) -> None:
        if source.endswith(".parquet") or "/published/" in source:
            os.link(source, to)
        else:
            shutil.copyfile(source, to)

    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(root.parent / "as it was", root, symlinks=True, copy_function=link)


def read(name: str, reader: Callable[[], pl.DataFrame]) -> tuple[str, str]:
    """Digest of rows, or that they were refused."""
    try:
        rows = reader()
    except CorruptWarehouseError:
        return name, "refused"
    content = rows.select(pl.all().sort_by(pl.all())).write_csv() if rows.height else ""
    return name, hashlib.sha256(content.encode()).hexdigest()


def everything(root: Path) -> dict[str, str]:
    """All that a reader can read, day by day: digests, or "refused"."""
    try:
        with open_reader(root) as reader:
            result = dict([read("users", lambda: reader.table("users")), read("nodes", lambda: reader.table("nodes"))])
            for number in range(DAYS):
                span = {"cluster": "c", "since": day_of(number), "until": day_of(number + 1)}
                result |= [read(f"samples {number}", lambda: reader.query("gpu_samples_between", **span))]  # noqa: B023 - called at once
                result |= [read(f"steps {number}", lambda: reader.query("existing_steps", **span))]  # noqa: B023 - called at once
    except CorruptWarehouseError:
        return {}
    return result


def target_of(root: Path, kind: str, chance: random.Random) -> Path:
    copies = directory.copies(root)
    places = {
        "samples": [
            file for file in sorted(root.glob("raw/gpu_samples/*/*/*.parquet")) if directory.number(file) <= DAYS + 1
        ],
        "steps": sorted(root.glob("raw/steps/*/*/*.parquet")),
        "database": [root / "warehouse.duckdb"],
        "published": [copies[-1]],
        "published before": copies[:-1],
        "write-ahead log": [root / "warehouse.duckdb.wal"],
        "lock": [root / "lock"],
        "current": [root / "published" / "current"],
    }
    return chance.choice(places[kind])


@dataclass(frozen=True)
class Case:
    kind: str
    how: str
    seed: int


def cases(number: int) -> list[Case]:
    chance = random.Random(SEED)
    ways = ("flip",) * 7 + ("delete", "cut", "zeros")
    return [
        Case(KINDS[each % len(KINDS)], ways[each // len(KINDS) % len(ways)], chance.randrange(2**32))
        for each in range(number)
    ]


def damage(root: Path, case: Case) -> None:
    chance = random.Random(case.seed)
    file = target_of(root, case.kind, chance)
    if file.is_symlink():
        file.unlink()
        if case.how != "delete":
            file.symlink_to(chance.choice(["00000001.duckdb", "nowhere", "../warehouse.duckdb"]))
        return
    content = bytearray(file.read_bytes())
    place = chance.randrange(len(content))
    file.unlink()
    if case.how == "delete":
        return
    if case.how == "flip":
        content[place] ^= 1 << chance.randrange(8)
    elif case.how == "cut":
        del content[place:]
    else:
        content[place : place + 512] = bytes(len(content[place : place + 512]))
    file.write_bytes(content)


def outcome(root: Path, case: Case, good: dict[str, str]) -> str:
    anew(root)
    damage(root, case)
    before = everything(root)
    wrong = {name for name, digest in before.items() if digest not in {"refused", good[name]}}
    assert not wrong, f"{case}: {wrong} read wrong, and nothing said so"
    reported = [result.text for result in integrity.examine(root) if result.state == "fail"]
    try:
        with open_writer(root, verb="test", now=NOW) as writer, writer.transaction():
            writer.append("associations", pl.DataFrame())
    except CorruptWarehouseError:
        return "detected"
    after = everything(root)
    wrong = {
        name for name, digest in after.items() if digest not in {"refused", good[name], good.get(f"{name}, killed")}
    }
    assert not wrong, f"{case}: {wrong} wrong after the next writer, and nothing said so"
    assert after, f"{case}: nothing can be read after a writer had no objection"
    return "detected" if reported or "refused" in {*before.values(), *after.values()} or not before else "harmless"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_detected_or_harmless(kind: str, root: Path) -> None:
    anew(root)
    good = everything(root)
    assert len(good) == 2 + 2 * DAYS
    assert "refused" not in good.values()
    with open_writer(root, verb="test", now=NOW):
        pass
    good["users, killed"] = everything(root)["users"]
    result: Counter[tuple[str, str]] = Counter()
    for case in cases(CASES):
        if case.kind == kind:
            result[case.how, outcome(root, case, good)] += 1
    if "TRACKSIDE_DAMAGES" in os.environ:
        table = [{"kind": kind, "how": how, "outcome": came, "n": n} for (how, came), n in sorted(result.items())]
        with Path(os.environ.get("TRACKSIDE_TABLE", os.devnull)).open("a") as file:
            file.write(pl.DataFrame(table).write_csv(include_header=False))
    assert sum(result.values()) == sum(each.kind == kind for each in cases(CASES))
    if kind in {"samples", "steps"}:
        assert not [how for how, came in result if came == "harmless"], (
            "a Parquet file has no byte that is not in its digest"
        )
