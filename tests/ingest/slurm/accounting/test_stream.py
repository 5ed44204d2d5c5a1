"""A large dump is read in blocks: whatever their size, the warehouse is the same, and so is the account of the load."""

from __future__ import annotations

import functools
import gzip
import io
import random
import sys
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from app.config.settings import Config
from ingest.context import ParseContext
from ingest.errors import InputError, TruncatedInputError
from ingest.files.input import Input
from ingest.files.prefetch import prefetch_one
from ingest.load_warnings import messages
from ingest.slurm import load_files as ingesting
from ingest.slurm import stream as streaming
from ingest.slurm.accounting.sacct import accounting_blocks
from ingest.slurm.accounting.store import Fingerprints
from queries.warehouse import open_reader, open_writer
from tests.support.command import assert_same
from tests.support.slurm.dumps import rows_of, tiny, with_rows
from tests.support.slurm.parsing import DATA, at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ingest.store.report import LoadReport

NOW = at(1_795_300_000)
ROWS = rows_of(tiny(120).accounting)


def ingested(
    root: Path, *files: Path, block: int, monkeypatch: pytest.MonkeyPatch, cluster: str | None = None
) -> list[LoadReport]:
    """Files loaded with blocks of that many bytes; what was reported of each."""
    monkeypatch.setattr(streaming, "accounting_blocks", functools.partial(accounting_blocks, block=block))
    monkeypatch.setattr("ingest.files.input.CHUNK", block)  # a block is never less than a piece
    monkeypatch.setattr("ingest.files.input.HEAD", min(max(block, 1 << 12), 1 << 16))  # by it the kind is recognised
    requested = ingesting.Options(timezone="UTC", cluster=cluster)
    names = [str(file) for file in files]
    with open_writer(root, verb="t", now=NOW) as writer:
        return ingesting.ingest_files(writer, Config(), names, requested, now=NOW, progress=lambda *_: None)


def mixed(seed: int) -> str:
    """Rows in any order, some of them twice, some as they were seen earlier, some torn, some refused."""
    chance = random.Random(seed)
    rows = list(ROWS)
    for row in chance.sample(ROWS, 60):
        cells = row.split("|")
        if cells[12].isdigit() and cells[15] == "COMPLETED":  # as it was seen while it still ran
            cells[12], cells[15], cells[13] = "Unknown", "RUNNING", str(int(cells[13]) // 2)
        rows.append("|".join(cells))
    rows += chance.sample(ROWS, 30)
    chance.shuffle(rows)
    for at_row in chance.sample(range(len(rows)), 12):
        damage = chance.choice(["a\nb|c", "\n\n", "x\ny\nz"])
        rows[at_row] = rows[at_row].rsplit("|", 1)[0] + "|" + damage
    for at_row in chance.sample(range(len(rows)), 5):
        rows[at_row] = rows[at_row].replace("|", "|x", 9)
    return with_rows(rows)


def values(report: LoadReport) -> tuple[object, ...]:
    """All that an account says but the rows."""
    parsed = report.parsed
    assert parsed is not None
    counts = (parsed.rows_read, parsed.rows_loaded, parsed.rows_duplicate, parsed.rows_skipped, parsed.rows_rejected)
    refused = parsed.rejects.select("cluster", "line", "reason", "raw").rows()
    return (
        *counts,
        refused,
        sorted(messages(parsed.warnings)),
        parsed.covers_from,
        parsed.covers_until,
        parsed.clusters,
    )


@pytest.mark.slow
@pytest.mark.parametrize("block", [700, 5_000, 40_000])
def test_any_size_of_block_gives_the_same_warehouse(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "jobs.txt"
    file.write_text(mixed(block))
    [whole] = ingested(tmp_path / "whole", file, block=1 << 30, monkeypatch=monkeypatch)
    [blocks] = ingested(tmp_path / "blocks", file, block=block, monkeypatch=monkeypatch)
    assert whole.parsed is not None
    assert whole.parsed.rows_rejected > 0
    assert whole.parsed.rows_duplicate > 0
    assert values(blocks) == values(whole)
    assert_same(tmp_path / "blocks", tmp_path / "whole")
    with open_reader(tmp_path / "blocks") as reader, open_reader(tmp_path / "whole") as other:
        assert reader.table("loads").drop("origin").equals(other.table("loads").drop("origin"))
        assert not [result for result in reader.checks() if result.check.severity == "stop"]


@pytest.mark.slow
def test_overlapping_repeated_files_in_any_order_load_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = (tmp_path / name for name in ("one.txt", "two.txt", "three.txt"))
    one.write_text(mixed(1))
    two.write_text(with_rows(ROWS[:200]))
    three.write_text(with_rows(ROWS[100:]))
    ingested(tmp_path / "straight", one, two, three, block=1 << 30, monkeypatch=monkeypatch)
    ingested(tmp_path / "mixed", three, one, block=9_000, monkeypatch=monkeypatch)
    ingested(tmp_path / "mixed", two, three, one, block=4_000, monkeypatch=monkeypatch)
    assert_same(tmp_path / "mixed", tmp_path / "straight")


@pytest.mark.slow
def test_existing_rows_are_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "jobs.txt"
    file.write_text(with_rows(ROWS))
    ingested(tmp_path / "w", file, block=2_000, monkeypatch=monkeypatch)
    written: list[str] = []
    with open_writer(tmp_path / "w", verb="t", now=NOW) as writer:
        append = writer.append

        def noted(table: str, rows: pl.DataFrame) -> None:
            written.extend([table] * rows.height)
            append(table, rows)

        monkeypatch.setattr(writer, "append", noted)
        streaming.load_accounting(
            writer, Input(str(file)), ParseContext(str(file), timezone="UTC"), now=NOW, progress=lambda *_: None
        )
    assert set(written) == {"loads"}


@pytest.mark.slow
def test_a_dump_that_stops_in_the_middle_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "jobs.txt"
    file.write_text(with_rows(ROWS)[:-60])
    [report] = ingested(tmp_path / "w", file, block=2_000, monkeypatch=monkeypatch)
    assert isinstance(report.error, TruncatedInputError)
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("attempts").is_empty()
        assert reader.table("loads").is_empty()


def test_who_stops_the_load_undoes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "jobs.txt"
    file.write_text(with_rows(ROWS))
    heard: list[tuple[int, int]] = []

    def stop(_: str, done: int, total: int) -> None:
        heard.append((done, total))
        if len(heard) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(streaming, "accounting_blocks", functools.partial(accounting_blocks, block=2_000))
    monkeypatch.setattr("ingest.files.input.CHUNK", 2_000)
    monkeypatch.setattr("ingest.files.input.HEAD", 2_000)
    with open_writer(tmp_path / "w", verb="t", now=NOW) as writer:
        with pytest.raises(KeyboardInterrupt):
            streaming.load_accounting(
                writer, Input(str(file)), ParseContext(str(file), timezone="UTC"), now=NOW, progress=stop
            )
        assert writer.table("attempts").is_empty()
    assert {total for _, total in heard} == {file.stat().st_size}
    assert 0 < heard[0][0] < heard[2][0] < file.stat().st_size


# --- inputs -------------------------------------------------------------------------------------------


def pieces(source: Input) -> bytes:
    return b"".join(source)


def test_an_input_is_read_whole_after_reading_its_beginning(tmp_path: Path) -> None:
    data = with_rows(ROWS * 3).encode()
    plain, packed = tmp_path / "jobs.txt", tmp_path / "jobs.txt.gz"
    plain.write_bytes(data)
    packed.write_bytes(gzip.compress(data[:9_000]) + gzip.compress(data[9_000:]))
    for file in (plain, packed):
        source = Input(str(file))
        assert source.head == data[: 1 << 16]
        assert pieces(source) == data
        assert source.done == source.size == file.stat().st_size
    assert Input(str(plain)).digest() != source.digest()


def test_standard_input_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = with_rows(ROWS).encode()
    for sent in (data, gzip.compress(data)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sent)))
        source = Input("-")
        assert data.startswith(source.head)
        assert pieces(source) == data


def test_damaged_or_cut_gzip_stream_is_reported(tmp_path: Path) -> None:
    noise = random.Random(3).randbytes(400_000)
    packed = gzip.compress(noise)
    file = tmp_path / "jobs.gz"
    file.write_bytes(packed[:-20_000])
    with pytest.raises(TruncatedInputError, match="cut off"):
        pieces(Input(str(file)))
    file.write_bytes(packed[:-8] + bytes(8))
    with pytest.raises(InputError, match="damaged"):
        pieces(Input(str(file)))
    with pytest.raises(InputError, match="No such file"):
        Input(str(tmp_path / "none"))
    with pytest.raises(InputError, match="directory"):
        Input(str(tmp_path))


# --- parts --------------------------------------------------------------------------------------------


def test_a_set_of_fingerprints_contains_what_was_added() -> None:
    chance = np.random.default_rng(4)
    there: set[int] = set()
    known = Fingerprints()
    for size in (5, 1, 0, 100, 3, 40, 40, 1000):
        numbers = chance.integers(0, 3_000, size).astype(np.uint64)
        counts = Counter(numbers.tolist())
        known_before = {number for number in counts if number in there}
        assert set(known.add(pl.Series(numbers))) == known_before
        assert set(known.add(pl.Series(numbers), twice=True)) == set(counts)
        there.update(numbers.tolist())


def test_working_ahead_keeps_order_and_errors() -> None:
    def numbers() -> Iterator[int]:
        yield from range(3)
        message = "broken"
        raise InputError(message)

    got: list[int] = []

    def use() -> None:
        for number in prefetch_one(numbers()):
            got.append(number)  # noqa: PERF402 - what was there before the error counts

    with pytest.raises(InputError, match="broken"):
        use()
    assert got == [0, 1, 2]


@pytest.mark.slow
def test_samples_of_real_slurm_read_the_same_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files into one warehouse: opening one takes longer than a file."""
    files = sorted(DATA.glob("*.sacct*.txt"))
    wholes = ingested(tmp_path / "a", *files, block=1 << 30, monkeypatch=monkeypatch, cluster="c")
    divided = ingested(tmp_path / "b", *files, block=600, monkeypatch=monkeypatch, cluster="c")
    assert len(wholes) == len(files)
    for whole, blocks in zip(wholes, divided, strict=True):
        assert str(blocks.error) == str(whole.error)
        if whole.parsed is not None:
            assert values(blocks) == values(whole)
    assert_same(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize("again", [False, True])
def test_ends_before_those_that_are_known_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """Two dumps in either order have the same result; that of the earlier end is warned of if it comes last."""
    head = "JobIDRaw|Cluster|Submit|Start|End|State|NNodes|NodeList|AllocTRES\n"
    names = {"late": (1_795_200_000, "NODE_FAIL"), "early": (1_795_100_000, "COMPLETED")}
    files = []
    for name, (end, state) in names.items():
        files.append(tmp_path / name)
        files[-1].write_text(f"{head}7|c|1795000000|1795000100|{end}|{state}|1|n1|gres/gpu=8\n")
    found = [messages(each.parsed.warnings if each.parsed else []) for each in ingested(
        tmp_path / "w", *(files if again else reversed(files)), block=1 << 16, monkeypatch=monkeypatch
    )]  # fmt: skip
    assert ["1 job ends earlier here" in " ".join(each) for each in found] == [False, again]
    with open_reader(tmp_path / "w") as reader:
        assert reader.frame("SELECT state FROM attempts").rows() == [("NODE_FAIL",)]
