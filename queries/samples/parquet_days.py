"""Parquet files of sample tables: how they are written, and which of them make up a day.

A day of a table may lie in several files, each with rows that no other has. A file is never changed: what is added
makes a new one, which takes in those that it outgrows, so that there are few, and each row is written few times.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import polars as pl

from queries import directory, integrity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import date

    import duckdb

ROW_GROUP: Final = 122_880
"""Rows of a row group: those of a few nodes, so that a query for one node skips the others."""

FEW: Final = 4_096
"""Distinct numbers up to which a dictionary of them is smaller than the numbers: shares of percents, temperatures."""

AT_ONCE: Final = 2 * ROW_GROUP
"""Rows of a day that are put together at once, about: a day of a large cluster does not fit into memory."""

OUTGROWN: Final = 2
"""A file takes in those that have fewer than so many times its rows. The files of a day then double in size from one to
the next: they are no more than its rows have doublings, and no row is written more often than that."""


def of_many_numbers(rows: pl.DataFrame) -> frozenset[str]:
    """Columns that have, in some row group of these rows, too many numbers for a dictionary to be smaller than they.

    One such group decides for a file, whose columns are encoded in one way each: where a fifth of a million numbers is
    constant and the others all differ, the file with a dictionary takes 1.6 times as much. Byte by byte wherever there
    are several groups would be no better: percents take three times as much as with a dictionary.
    """
    slices = rows.select(pl.selectors.float()).iter_slices(ROW_GROUP)
    counted = (part.select(pl.all().approx_n_unique()) for part in slices if part.height)
    return frozenset(name for counts in counted for name in counts.columns if counts[name].item() > FEW)


def write_parts(parts: Iterator[pl.DataFrame], path: Path, *, many: Collection[str]) -> int:
    """Write a file of rows that come in parts, of which two are in memory at a time; returns how many rows they are.

    Texts and few numbers are written as dictionaries, other numbers byte by byte, times as steps; then zstd. Of 9
    metrics of 400 GPUs that took 1.39 bytes per value, against 1.56 as polars writes them, in the same time.

    Args:
        parts: of the rows; at least one, since it has the names of the columns.
        path: of the file.
        many: the columns that are written byte by byte; see `of_many_numbers`.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 - readers import this module, too

    first = next(parts, None)
    if first is None:
        raise ValueError(f"{path}: no part, so the columns are not known")
    times = first.select(pl.selectors.datetime()).columns
    height = 0
    with pq.ParquetWriter(
        path,
        first.clear().to_arrow(compat_level=pl.CompatLevel.oldest()).schema,
        compression="zstd",
        use_dictionary=[name for name in first.columns if name not in {*many, *times}],  # type: ignore[arg-type]  # names are fine
        use_byte_stream_split=[name for name in first.columns if name in many],
        write_page_checksum=True,  # for readers that compare it: Trackside uses the digest of the file
        column_encoding=dict.fromkeys(times, "DELTA_BINARY_PACKED"),
    ) as writer:
        parts = chain([first], parts)
        del first
        for rows in _in_row_groups(parts):
            height += rows.height
            writer.write_table(rows.to_arrow(compat_level=pl.CompatLevel.oldest()), row_group_size=ROW_GROUP)
    return height


def _in_row_groups(parts: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The rows of parts cut where row groups end: what a part has beyond its last one goes with the next."""
    rest = pl.DataFrame()
    for part in parts:
        rows = pl.concat([rest, part]) if rest.height else part
        whole = rows.height // ROW_GROUP * ROW_GROUP
        if whole:
            yield rows.head(whole)
        rest = rows.slice(whole)
    if rest.height:
        yield rest


def outgrown(heights: Sequence[int], height: int) -> list[int]:
    """Files that a new one of that height is merged with, by their numbers of rows.

    >>> outgrown([800, 100, 200], 100), outgrown([800, 100], 30), outgrown([], 10)
    ([1, 2], [], [])
    """
    taken = []
    for place in sorted(range(len(heights)), key=lambda place: heights[place]):
        if heights[place] >= OUTGROWN * height:
            break
        taken.append(place)
        height += heights[place]
    return taken


@dataclass(frozen=True)
class Files:
    """The files of a sample table, within a transaction that makes data version `version`."""

    root: Path
    connection: duckdb.DuckDBPyConnection
    table: str
    version: int
    written: list[Path]
    """Files that were written, for whoever has to take them away if the transaction fails."""

    def replace(self, cluster: str, day: date, rows: pl.DataFrame) -> None:
        """Have a day be these rows."""
        self.retire(cluster, day)
        self._add(cluster, day, iter([rows]), of_many_numbers(rows))

    def change(self, cluster: str, day: date, out: pl.DataFrame, into: pl.DataFrame, *, order: Sequence[str]) -> None:
        """Delete rows of a day, each passed in full, and insert others.

        Files that hold none of the rows to go stay as they are, but for those that the new one outgrows.
        """
        files = dict(self._of(cluster, day))
        taken: list[integrity.ManifestFile] = []
        height = into.height
        for file in list(files) if out.height else []:
            gone = self._has(file, out)
            if gone:
                height += files.pop(file) - gone
                taken.append(file)
        if height:
            taken += [list(files)[place] for place in outgrown(list(files.values()), height)]
        for file in taken:
            self.retire(cluster, day, file.path)
        if height:
            self._add_together(cluster, day, taken, (out, into.select(out.columns)), order)

    def compact(self, cluster: str, *, before: date, order: Sequence[str]) -> None:
        """Make one file of those of each earlier day that has several; a day that is damaged is left as it is."""
        days = self.connection.execute(
            "SELECT day FROM partitions WHERE table_name = ? AND cluster = ? AND day < ? AND removed_version IS NULL "
            "GROUP BY day HAVING count(*) > 1 ORDER BY day",
            [self.table, cluster, before],
        ).fetchall()
        for (day,) in days:
            files = [file for file, _ in self._of(cluster, day)]
            if not integrity.damaged(self.root, files):
                self.retire(cluster, day)
                none = pl.concat([self._scan(file).limit(0).collect() for file in files], how="diagonal_relaxed")
                self._add_together(cluster, day, files, (none, none), order)

    def retire(self, cluster: str, day: date, path: str | None = None) -> None:
        """Have the files of a day, or one of them, count no longer; it goes when no published copy names it."""
        self.connection.execute(
            "UPDATE partitions SET removed_version = $version WHERE table_name = $table AND cluster = $cluster "
            "AND day = $day AND path = coalesce($path, path) AND removed_version IS NULL",
            {"version": self.version, "table": self.table, "cluster": cluster, "day": day, "path": path},
        )

    def forget(self, cluster: str, day: date, path: str) -> int:
        """Have a damaged file count no longer, as `retire`; returns how many rows the day had with it."""
        rows = sum(rows for _, rows in self._of(cluster, day))
        self.retire(cluster, day, path)
        return rows

    def _of(self, cluster: str, day: date) -> list[tuple[integrity.ManifestFile, int]]:
        """The files of a day that count, and how many rows each has."""
        files = self.connection.execute(
            "SELECT path, bytes, sha256, rows FROM partitions WHERE table_name = ? AND cluster = ? AND day = ? "
            "AND removed_version IS NULL ORDER BY path",
            [self.table, cluster, day],
        )
        return [
            (integrity.ManifestFile(self.table, cluster, day, path, n_bytes, sha256), rows)
            for path, n_bytes, sha256, rows in files.fetchall()
        ]

    def _add_together(
        self,
        cluster: str,
        day: date,
        files: Sequence[integrity.ManifestFile],
        changes: tuple[pl.DataFrame, pl.DataFrame],
        order: Sequence[str],
    ) -> None:
        """Write the rows of some files without the first rows of `changes` and with the second ones as one file.

        How its columns are written follows from the rows that come, and from how those that are there were written.
        """
        many = of_many_numbers(changes[1]).union(*(_byte_by_byte(self.root / file.path) for file in files))
        self._add(cluster, day, self._together(files, *changes, order), many)

    def _together(
        self, files: Sequence[integrity.ManifestFile], out: pl.DataFrame, into: pl.DataFrame, order: Sequence[str]
    ) -> Iterator[pl.DataFrame]:
        """The rows of some files without some and with others, sorted; those of some nodes at a time."""
        integrity.require(self.root, files)
        for nodes in self._ranges(files, into, order):
            rows = self._read(files, nodes, into)
            left = rows.join(out.filter(nodes), on=rows.columns, how="anti", nulls_equal=True) if out.height else rows
            yield pl.concat([into.filter(nodes), left]).sort(order)

    def _ranges(
        self, files: Sequence[integrity.ManifestFile], into: pl.DataFrame, order: Sequence[str]
    ) -> list[pl.Expr]:
        """Conditions that part the rows by node, in their order, `AT_ONCE` together; without nodes or rows one."""
        if "node" not in order:
            return [pl.lit(value=True)]
        nodes = [self._scan(file).group_by("node").len().collect(engine="streaming") for file in files]
        counted = pl.concat([into.group_by("node").len(), *nodes]).group_by("node").agg(pl.col("len").sum())
        turns = counted.sort("node").with_columns(turn=pl.col("len").cum_sum() // AT_ONCE)
        edges = turns.group_by("turn", maintain_order=True).agg(first=pl.col("node").min(), last=pl.col("node").max())
        return [pl.col("node").is_between(pl.lit(low), pl.lit(high)) for _, low, high in edges.rows()] or [
            pl.lit(value=True)
        ]

    def _has(self, file: integrity.ManifestFile, rows: pl.DataFrame) -> int:
        """How many of some rows a file has."""
        integrity.require(self.root, [file])
        low, high = rows.select(pl.col("ts").min().alias("low"), pl.col("ts").max().alias("high"))
        near = self._read([file], pl.col("ts").is_between(low.item(), high.item()), rows)
        return near.join(rows, on=rows.columns, how="semi", nulls_equal=True).height

    def _read(self, files: Sequence[integrity.ManifestFile], condition: pl.Expr, like: pl.DataFrame) -> pl.DataFrame:
        """Rows of some files with the columns of a frame; one that an older file lacks is null."""
        parts = [self._scan(file).filter(condition).collect() for file in files]
        return pl.concat([like.clear(), *parts], how="diagonal_relaxed").select(like.columns)

    def _scan(self, file: integrity.ManifestFile) -> pl.LazyFrame:
        return pl.scan_parquet(self.root / file.path, hive_partitioning=False, glob=False)

    def _add(self, cluster: str, day: date, parts: Iterator[pl.DataFrame], many: Collection[str]) -> None:
        """Write a file, whole and on disk before the manifest names it."""
        place = Path("raw", self.table, f"cluster={quote(cluster, safe='')}", f"day={day.isoformat()}")
        (self.root / place).mkdir(parents=True, exist_ok=True)
        begins = str(place / f"{self.version:08d}")
        count = self.connection.execute("SELECT count(*) FROM partitions WHERE starts_with(path, ?)", [begins])
        row = count.fetchone()
        more = f"-{row[0]}" if row is not None and row[0] else ""  # the day changes twice in this transaction
        path = f"{begins}{more}.parquet"
        file = self.root / path
        self.written.append(file)
        height = write_parts(parts, file, many=many)
        directory.sync(file)
        self.connection.execute(
            "INSERT INTO partitions VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
            [self.table, cluster, day, path, height, file.stat().st_size, integrity.digest_of(file), self.version],
        )


def _byte_by_byte(path: Path) -> frozenset[str]:
    """Columns of a file that are not written as dictionaries of their numbers."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    return frozenset(column.path_in_schema for column in columns if "BYTE_STREAM_SPLIT" in column.encodings)
