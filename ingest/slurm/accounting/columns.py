"""The text columns of an accounting dump by name, parsed into values.

Most columns repeat the same few texts. Each text is parsed once and the result put back into its rows: `Distinct`
splits a column into its distinct texts and an index per row. Columns with hardly any repeated text (ids, times) are
parsed row by row.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar, cast

import polars as pl

from ingest.slurm.formats import values
from ingest.slurm.formats.nodelist import expand_column
from ingest.slurm.formats.timestamps import Instants, read_instants
from ingest.slurm.formats.tres import TRES_SCHEMA, gres_columns, tres_columns

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE: Final = 1_000
"""Rows sampled to decide whether a column repeats its texts."""

Read = TypeVar("Read", pl.Series, pl.DataFrame)

_NO_NAME: Final = frozenset({"", "(null)"})


class Distinct:
    """A text column as its distinct texts and the index of one for each row."""

    def __init__(self, text: pl.Series) -> None:
        self.texts = text
        self._places: pl.Series | None = None
        self._nothing = text.null_count() == len(text)
        if self._nothing:
            self.texts = pl.Series(text.name, [None], text.dtype)
            self._places = pl.Series([0], dtype=pl.UInt32).new_from_index(0, len(text))
            return
        if len(text) > values.FEW and _repeats(text):
            places = text.cast(pl.Categorical(pl.Categories.random())).to_physical()
            first = pl.DataFrame({"place": places, "text": text}).select(pl.all().gather(places.arg_unique()))
            first = first.drop_nulls().sort("place")
            if first["place"].equals(pl.Series(range(first.height)), check_dtypes=False):
                self.texts, self._places = first["text"], places

    @functools.cached_property
    def words(self) -> pl.Series:
        """The distinct texts; those without a value (`None`, `Unknown`) are null."""
        return values.blank_to_null(self.texts)

    def each(self, convert: Callable[[pl.Series], Read], *, as_written: bool = False) -> Read:
        """The results of `convert` row by row; it converts each text on its own, and null to null.

        Its argument is `words`, or with `as_written` all texts, also those without a value.
        """
        if self._nothing:
            converted = cast("Read", _of_null(convert))
        else:
            converted = convert(self.texts if as_written else self.words)
        if self._places is None:
            return converted
        if isinstance(converted, pl.Series):
            return converted[self._places]
        return pl.DataFrame([column[self._places] for column in converted.get_columns()])


def _repeats(text: pl.Series) -> bool:
    sample = text.gather_every(max(len(text) // SAMPLE, 1))
    return 2 * sample.n_unique() < len(sample)


@functools.lru_cache(maxsize=64)
def _of_null(convert: Callable[[pl.Series], Read]) -> Read:
    """Result of `convert` for null: most dumps lack half of the columns."""
    return convert(pl.Series([None], dtype=pl.String))


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
        self._distinct: dict[str, Distinct] = {}
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
            self._words[name] = self._column(name).each(_word)
        return self._words[name]

    def label(self, name: str) -> pl.Series:
        """A name that people chose, so even "None" may be one."""
        return self._column(name).each(_label, as_written=True)

    def whole(self, *names: str) -> pl.Series:
        """A count or id."""
        return self._noted(names[0], self._column(*names).each(_whole))["read"]

    def duration(self, *names: str) -> pl.Series:
        """Seconds from the first column that has them, row by row."""
        durations = [self._noted(name, self._column(name).each(_duration))["read"] for name in names if self._has(name)]
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
            self._noted(name, self._column(name).each(_time_limit, as_written=True))["read"] for name in names
        )
        return raw.fill_null(spelled)

    def time(self, name: str) -> Instants:
        """Both readings of a time."""
        return read_instants(self.text(name).alias(name), timezone=self._timezone, origin=self._origin)

    def memory(self, n_nodes: pl.Series, n_cpus: pl.Series) -> pl.Series:
        """Requested memory in bytes."""
        sizes = self._noted("reqmem", self._column("reqmem").each(_memory))
        return values.total_memory(sizes, n_nodes=n_nodes, n_cpus=n_cpus)

    def exit_code(self, name: str) -> pl.DataFrame:
        """Exit status and signal."""
        return self._noted(name, self._column(name).each(_exit_code))

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
            read = _gres if not self._has(name) and self._has(old) else tres_columns
            self._tres[name] = self._column(name, old).each(read)
        return self._tres[name]

    def gres(self, name: str) -> pl.Series:
        """GPUs of a GRES column of older Slurm; null where there is no such column, or nothing readable in it."""
        return self._column(name).each(_gres)["gpus"]

    def note(self, name: str, lost: pl.Series) -> None:
        """Count the rows (true or false each) in which a value of this column could not be read."""
        if count := int(lost.sum()):
            self.unreadable[name] += count
            self.lost[name] = lost

    def _has(self, name: str) -> bool:
        return name in self.frame.columns

    def _first(self, names: tuple[str, ...]) -> str:
        return next(filter(self._has, names), names[0])

    def _column(self, *names: str) -> Distinct:
        name = self._first(names)
        if name not in self._distinct:
            self._distinct[name] = Distinct(self.text(name))
        return self._distinct[name]

    def _noted(self, name: str, table: pl.DataFrame) -> pl.DataFrame:
        """The columns without `lost`, whose rows are counted as unreadable."""
        self.note(name, table["lost"])
        return table[[column for column in table.columns if column != "lost"]]


def _with_lost(read: pl.Series, lost: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"read": read, "lost": lost})


def _word(words: pl.Series) -> pl.Series:
    return words


def _label(text: pl.Series) -> pl.Series:
    return values.blank_to_null(text, _NO_NAME)


def _duration(words: pl.Series) -> pl.DataFrame:
    seconds = values.durations(words)
    return _with_lost(seconds, words.is_not_null() & seconds.is_null())


def _whole(words: pl.Series) -> pl.DataFrame:
    numbers = values.whole_numbers(words)
    lost = words.is_not_null() & numbers.is_null()
    return _with_lost(numbers, lost & ~words.is_in(list(values.UNSET)) if lost.any() else lost)


def _time_limit(text: pl.Series) -> pl.DataFrame:
    texts = values.blank_to_null(text, values.UNLIMITED)
    limits = values.time_limits(texts)
    return _with_lost(limits, texts.is_not_null() & limits.is_null() & ~values.is_no_limit(texts))


def _memory(words: pl.Series) -> pl.DataFrame:
    sizes = values.memory_sizes(words)
    lost = words.is_not_null() & sizes["bytes"].is_null() & ~values.is_unset_memory(words)
    return sizes.with_columns(lost.alias("lost"))


def _exit_code(words: pl.Series) -> pl.DataFrame:
    codes = values.exit_codes(words)
    return codes.with_columns((words.is_not_null() & codes["code"].is_null()).alias("lost"))


def _gres(words: pl.Series) -> pl.DataFrame:
    """GRES in the columns of a TRES: they hold GPUs only."""
    untold = {name: dtype for name, dtype in TRES_SCHEMA.items() if dtype == pl.Int64}
    return gres_columns(words).with_columns(
        *(pl.lit(None, dtype).alias(name) for name, dtype in untold.items()), parts=pl.lit(value=False)
    )
