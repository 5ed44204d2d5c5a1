"""The text columns of an accounting dump by name, parsed into values (`ingest.slurm.formats.values`)."""

from __future__ import annotations

from collections import Counter

import polars as pl

from ingest.slurm.formats import values
from ingest.slurm.formats.nodelist import expand_column
from ingest.slurm.formats.timestamps import Instants, read_instants
from ingest.slurm.formats.tres import gres_as_tres, tres_columns


class DumpColumns:
    """The columns of a dump; absent ones are null. Counts unreadable values.

    Attributes:
        frame: The text columns.
        unreadable: How many values of a column could not be read.
        lost: For each of these columns the rows in which a value could not be read.
        lists: The node lists, each once, see `ingest.slurm.formats.nodelist.expand_column`.
    """

    def __init__(self, frame: pl.DataFrame, *, timezone: str | None, origin: str) -> None:
        self.frame = frame
        self.unreadable: Counter[str] = Counter()
        self.lost: dict[str, pl.Series] = {}
        self._distinct: dict[str, values.Distinct] = {}
        self._words: dict[str, pl.Series] = {}
        self._tres: dict[str, pl.DataFrame] = {}
        self._timezone = timezone
        self._origin = origin
        self.lists = expand_column(self._column("nodelist").words)

    def text(self, *names: str) -> pl.Series:
        """The first of the columns that the dump has."""
        for name in names:
            if name in self.frame.columns:
                return self.frame[name]
        return pl.Series(names[0], [None], pl.String).new_from_index(0, self.frame.height)

    def word(self, *names: str) -> pl.Series:
        """A text; `None`, `Unknown` and the like are null."""
        name = self._first(names)
        if name not in self._words:
            self._words[name] = self._column(name).word_rows()
        return self._words[name]

    def label(self, name: str) -> pl.Series:
        """A name that people chose, so even "None" may be one."""
        return self._column(name).each(values.labels, as_written=True)

    def whole(self, *names: str) -> pl.Series:
        """A count or id."""
        return self._noted(names[0], self._column(*names).each(values.checked_whole_numbers))["read"]

    def duration(self, *names: str) -> pl.Series:
        """Seconds from the first column that has them, row by row."""
        durations = [
            self._noted(name, self._column(name).each(values.checked_durations))["read"]
            for name in names
            if self._has(name)
        ]
        seconds = (
            durations[0] if durations else pl.Series([None], dtype=pl.Float64).new_from_index(0, self.frame.height)
        )
        for more in durations[1:]:
            seconds = seconds.fill_null(more)
        return seconds

    def time_limit(self) -> pl.Series:
        """The time limit in seconds: minutes as they are, or spelled out."""
        names = ("timelimitraw", "timelimit")
        raw, spelled = (
            self._noted(name, self._column(name).each(values.time_limits, as_written=True))["read"] for name in names
        )
        return raw.fill_null(spelled)

    def time(self, name: str) -> Instants:
        """Both readings of a time."""
        return read_instants(self.text(name).alias(name), timezone=self._timezone, origin=self._origin)

    def memory(self, n_nodes: pl.Series, n_cpus: pl.Series) -> pl.Series:
        """Requested memory in bytes."""
        sizes = self._noted("reqmem", self._column("reqmem").each(values.memory_sizes))
        return values.total_memory(sizes, n_nodes=n_nodes, n_cpus=n_cpus)

    def exit_code(self, name: str) -> pl.DataFrame:
        """Exit status and signal."""
        return self._noted(name, self._column(name).each(values.exit_codes))

    def state(self) -> pl.DataFrame:
        """Columns `state`, `cancelled_by` and `known`, see `values.states`."""
        return self._column("state").each(values.states)

    def nodes(self) -> pl.DataFrame:
        """Columns `n` (number of nodes in the node list) and `error`."""
        counts = self.lists.select("text", pl.col("nodes").list.len().alias("n"), "error")

        def read(words: pl.Series) -> pl.DataFrame:
            texts = words.alias("text").to_frame()
            return texts.join(counts, on="text", how="left", maintain_order="left").drop("text")

        return self._column("nodelist").each(read)

    def tres(self, name: str) -> pl.DataFrame:
        """A TRES column, or the GRES column of older Slurm in its place."""
        if name not in self._tres:
            old = name.replace("tres", "gres")
            read = gres_as_tres if not self._has(name) and self._has(old) else tres_columns
            self._tres[name] = self._column(name, old).each(read)
        return self._tres[name]

    def gres(self, name: str) -> pl.Series:
        """GPUs of a GRES column of older Slurm; null where there is no such column, or nothing readable in it."""
        return self._column(name).each(gres_as_tres)["gpus"]

    def note(self, name: str, lost: pl.Series) -> None:
        """Count the rows (true or false each) in which a value of this column could not be read."""
        if count := int(lost.sum()):
            self.unreadable[name] += count
            self.lost[name] = lost

    def _has(self, name: str) -> bool:
        return name in self.frame.columns

    def _first(self, names: tuple[str, ...]) -> str:
        return next(filter(self._has, names), names[0])

    def _column(self, *names: str) -> values.Distinct:
        name = self._first(names)
        if name not in self._distinct:
            self._distinct[name] = values.Distinct(self.text(name))
        return self._distinct[name]

    def _noted(self, name: str, table: pl.DataFrame) -> pl.DataFrame:
        """The columns without `lost`, whose rows are counted as unreadable."""
        self.note(name, table["lost"])
        return table.drop("lost")
