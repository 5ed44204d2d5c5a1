"""Slurm's ways to write a value, as whole columns: numbers, durations, memory, exit codes, states, job ids.

Every function takes a text column and returns columns of the same length. Words for "no value" are null, and so are
unreadable texts: where both may be in a column, the result has a column `lost`, true for the latter.

Most columns repeat the same few texts. `Distinct` splits a column into its distinct texts and an index per row: each
text is parsed once and the result put back into its rows. Columns with hardly any repeated text (ids, times) are parsed
row by row.
"""

from __future__ import annotations

import re
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Final, TypeVar, cast

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.tables import Schema

NOTHING: Final = frozenset({"", "unknown", "none", "n/a", "na", "(null)", "null", "none assigned", "invalid", "-"})
"""Lower-case words for "no value". `Unknown` is not yet, `None` is never; neither is a time."""

UNLIMITED: Final = NOTHING | {"unlimited", "partition_limit", "infinite"}

NO_NUMBER: Final = 0xFFFF_FFFE
"""Slurm's 32-bit mark for "not set"; the value above it is "infinite"."""

_MARKS: Final = (NO_NUMBER, NO_NUMBER + 1)

UNSET: Final = frozenset(map(str, (*_MARKS, (1 << 64) - 2, (1 << 64) - 1)))
"""The marks for "not set" and "infinite", in 32 and in 64 bits, as texts."""

SAMPLE: Final = 1_000
"""Rows sampled to decide whether a column repeats its texts."""

FEW: Final = 32
"""Up to this many texts are read one by one: finding the distinct ones would take longer."""

_NO_NAME: Final = frozenset({"", "(null)"})

UNITS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
"""Suffixes of sizes and counts, with the power of 1024 that each multiplies by."""


Read = TypeVar("Read", pl.Series, pl.DataFrame)


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
        if len(text) > FEW and _repeats(text):
            places = text.cast(pl.Categorical(pl.Categories.random())).to_physical()
            first = pl.DataFrame({"place": places, "text": text}).select(pl.all().gather(places.arg_unique()))
            first = first.drop_nulls().sort("place")
            if first["place"].equals(pl.Series(range(first.height)), check_dtypes=False):
                self.texts, self._places = first["text"], places

    @cached_property
    def words(self) -> pl.Series:
        """The distinct texts; those without a value (`None`, `Unknown`) are null."""
        return blank_to_null(self.texts)

    def word_rows(self) -> pl.Series:
        """`words`, row by row."""
        return self._by_row(self.words)

    def each(self, convert: Callable[[pl.Series], Read], *, as_written: bool = False) -> Read:
        """The results of `convert` row by row; it converts each text on its own, and null to null.

        Its argument is `words`, or with `as_written` all texts, also those without a value.
        """
        if self._nothing:
            converted = cast("Read", _of_null(convert))
        else:
            converted = convert(self.texts if as_written else self.words)
        return self._by_row(converted)

    def _by_row(self, converted: Read) -> Read:
        if self._places is None:
            return converted
        if isinstance(converted, pl.Series):
            return converted[self._places]
        return pl.DataFrame([column[self._places] for column in converted.get_columns()])


def _repeats(text: pl.Series) -> bool:
    sample = text.gather_every(max(len(text) // SAMPLE, 1))
    return 2 * sample.n_unique() < len(sample)


@lru_cache(maxsize=64)
def _of_null(convert: Callable[[pl.Series], Read]) -> Read:
    """Result of `convert` for null: most dumps lack half of the columns."""
    return convert(pl.Series([None], dtype=pl.String))


def by_distinct(text: pl.Series, convert: Callable[[str], tuple[object, ...]], schema: Schema) -> pl.DataFrame:
    """Convert each distinct text once, and join the results back to the rows; null gives nulls."""
    nulls = text.null_count()
    if len(text) <= FEW or text.n_unique() - bool(nulls) + nulls == len(text):
        unknown = (None,) * len(schema)
        return pl.DataFrame([unknown if each is None else convert(each) for each in text], schema, orient="row")
    rows = [(value, *convert(value)) for value in text.drop_nulls().unique()]
    table = pl.DataFrame(rows, schema={"#text": pl.String, **schema}, orient="row")
    return text.alias("#text").to_frame().join(table, on="#text", how="left", maintain_order="left").drop("#text")


def blank_to_null(text: pl.Series, words: frozenset[str] = NOTHING) -> pl.Series:
    """The column with every word for "no value" made null, and blanks around the others gone.

    >>> blank_to_null(pl.Series(["main", " Unknown ", "N/A", ""])).to_list()
    ['main', None, None, None]
    """
    if text.cast(pl.Int64, strict=False).null_count() == text.null_count():
        return text
    return text.to_frame().select(_meaning(words)).to_series()


def labels(text: pl.Series) -> pl.Series:
    """Names that people chose: even "None" may be one."""
    return blank_to_null(text, _NO_NAME)


@cache
def _meaning(words: frozenset[str]) -> pl.Expr:
    plain = pl.first().str.strip_chars()
    return pl.when(~plain.str.to_lowercase().is_in(list(words))).then(plain)


# --- numbers and durations -----------------------------------------------------------------------------


def whole_numbers(text: pl.Series) -> pl.Series:
    """Counts and ids. Slurm writes 2048 as `2K` by default (units of 1024); its "not set" marks are null.

    None of them can be negative: -1 is a mark that went through a signed number.

    >>> whole_numbers(pl.Series(["8", "2K", "4294967294", "-1", "x"])).to_list()
    [8, 2048, None, None, None]
    """
    numbers = text.cast(pl.Int64, strict=False)
    if numbers.null_count() > text.null_count():
        scaled = by_distinct(text.filter(numbers.is_null()), lambda one: (_scaled(one),), {"n": pl.Int64()})["n"]
        numbers = numbers.scatter(numbers.is_null().arg_true(), scaled)
    return numbers.set(numbers.is_in(_MARKS) | (numbers < 0), None)


def checked_whole_numbers(words: pl.Series) -> pl.DataFrame:
    """`whole_numbers` as the column `read`, and `lost`."""
    numbers = whole_numbers(words)
    lost = words.is_not_null() & numbers.is_null()
    return pl.DataFrame({"read": numbers, "lost": lost & ~words.is_in(list(UNSET)) if lost.any() else lost})


def _scaled(text: str) -> int | None:
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)([KMGTPE]?)", text.strip(), re.ASCII | re.IGNORECASE)
    if match is None:
        return None
    number = float(match[1]) * 1024 ** UNITS[match[2].upper()]
    return int(number) if number.is_integer() and number < 2**63 else None


def durations(text: pl.Series) -> pl.Series:
    """Seconds from `D-HH:MM:SS`, `HH:MM:SS`, `MM:SS`, `MM:SS.mmm`, `D-HH`, `D-HH:MM` or a number of seconds.

    >>> durations(pl.Series(["1-03:00:02", "00:02.500", "3-13", "42", "bad"])).to_list()
    [97202.0, 2.5, 306000.0, 42.0, None]
    """
    seconds = text.cast(pl.Float64, strict=False)
    if seconds.null_count() == text.null_count():
        return _sound(seconds)
    seconds = seconds.fill_null(_usual_clock(text))
    if seconds.null_count() == text.null_count():
        return _sound(seconds)
    spelled = text.filter(seconds.is_null()).unique().drop_nulls().alias("text")
    table = spelled.to_frame().with_columns(_clock(spelled).alias("seconds"))
    rows = text.alias("text").to_frame().join(table, on="text", how="left", maintain_order="left")
    return _sound(seconds.fill_null(rows["seconds"]))


def checked_durations(words: pl.Series) -> pl.DataFrame:
    """`durations` as the column `read`, and `lost`."""
    seconds = durations(words)
    return pl.DataFrame({"read": seconds, "lost": words.is_not_null() & seconds.is_null()})


def _sound(seconds: pl.Series) -> pl.Series:
    """Seconds without marks: Slurm's "not set" would be 136 years, and polars also parses infinity."""
    return seconds.set(~(seconds >= 0) | (seconds >= NO_NUMBER), None)


def _usual_clock(text: pl.Series) -> pl.Series:
    """Seconds from `HH:MM:SS`; null for every other form."""
    usual = text.str.contains(r"^\d\d:\d\d:\d\d$")
    hours, minutes, seconds = (text.str.slice(at, 2).cast(pl.Int64, strict=False) for at in (0, 3, 6))
    return (hours * 3600 + minutes * 60 + seconds).cast(pl.Float64).set(~usual, None)


def _clock(text: pl.Series) -> pl.Series:
    """Seconds from spelled durations. After a day count the fields are hours first; without one, seconds last."""
    table = (
        text.alias("text")
        .to_frame()
        .with_columns(
            pl.col("text").str.extract(r"^(\d{1,9})-\d", 1).cast(pl.Float64).alias("days"),
            pl.col("text").str.replace(r"^\d{1,9}-", "").alias("clock"),
        )
    )
    fields = pl.col("clock").str.split(":")
    first, second, third = (fields.list.get(i, null_on_oob=True).cast(pl.Float64, strict=False) for i in range(3))
    from_days = (pl.col("days") * 24 + first) * 3600 + second.fill_null(0) * 60 + third.fill_null(0)
    from_clock = pl.when(third.is_null()).then(first * 60 + second).otherwise(first * 3600 + second * 60 + third)
    valid = pl.col("clock").str.contains(r"^\d{1,9}(:\d{1,2}){0,2}(\.\d+)?$")
    return table.select(pl.when(valid).then(pl.coalesce(from_days, from_clock))).to_series()


def time_limits(text: pl.Series) -> pl.DataFrame:
    """Seconds (`read`) from a time limit, where a bare number means minutes, and `lost`.

    `UNLIMITED` and `Partition_Limit` are null and not lost. So are the marks for them, and 0: a requested limit of zero
    means no limit.

    >>> time_limits(pl.Series(["1-00:00:00", "90", "UNLIMITED", "4294967295", "0", "soon"])).rows()
    [(86400.0, False), (5400.0, False), (None, False), (None, False), (None, False), (None, True)]
    """
    limits = blank_to_null(text, UNLIMITED)
    minutes = limits.cast(pl.Float64, strict=False)
    limited = minutes.set(~(minutes > 0) | (minutes >= NO_NUMBER), None)
    seconds = (limited * 60).fill_null(durations(limits.set(minutes.is_not_null(), None)))
    return pl.DataFrame(
        {"read": seconds, "lost": limits.is_not_null() & seconds.is_null() & ~limits.is_in(["0", *UNSET])}
    )


def memory_sizes(text: pl.Series) -> pl.DataFrame:
    """Columns `bytes`, `per` and `lost` of requested memory: a bare number means MB, `n` each node, `c` each core.

    2147486448Mn and its like are null: an unset 32-bit number with a flag in its top bit, not two petabytes per node.
    Without the letter it comes from a Slurm that counts in 64 bits, and a whole cluster may have as much.

    >>> memory_sizes(pl.Series(["1G", "3000Mc", "2147486448Mn", "odd"])).rows()
    [(1073741824, '', False), (3145728000, 'c', False), (None, None, False), (None, None, True)]
    """
    sizes = by_distinct(text, _memory, {"bytes": pl.Int64(), "per": pl.String()})
    lost = text.is_not_null() & sizes["bytes"].is_null() & ~_is_unset_memory(text)
    return sizes.with_columns(lost.alias("lost"))


def total_memory(sizes: pl.DataFrame, *, n_nodes: pl.Series, n_cpus: pl.Series) -> pl.Series:
    """Total bytes, from sizes for each node or core; null where the number of these is unknown."""
    table = sizes.with_columns(n_nodes.alias("n"), n_cpus.alias("c"))
    factor = pl.when(pl.col("per") == "n").then("n").when(pl.col("per") == "c").then("c").otherwise(1)
    total = pl.col("bytes").cast(pl.Float64) * factor
    return table.select(pl.when(total < 2.0**63).then(total.cast(pl.Int64, strict=False))).to_series()


def _memory(text: str) -> tuple[int | None, str | None]:
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)([KMGTPE]?)([nc]?)", text.strip(), re.ASCII | re.IGNORECASE)
    if match is None:
        return None, None
    unit = match[2].upper() or "M"
    if unit == "M" and match[3] and 2**31 <= float(match[1]) < 2**32:
        return None, None
    size = float(match[1]) * 1024 ** UNITS[unit]
    return (int(size) if size < 2**63 else None), match[3].lower()


def _is_unset_memory(text: pl.Series) -> pl.Series:
    """Which texts are the mark for memory that was not set (see :func:`memory_sizes`).

    Newer Slurm keeps memory in 64 bits, the flag in the top one of those.
    """
    short = text.str.extract(r"^(\d{10})M?[nc]$", 1).cast(pl.Int64).is_between(2**31, 2**32 - 1)
    return short.fill_null(value=False) | text.str.contains(r"^(9[2-9]\d{17}|1\d{19})M?[nc]?$")


def exit_codes(text: pl.Series) -> pl.DataFrame:
    """Columns `code` and `signal` from `status:signal`, and `lost`.

    >>> exit_codes(pl.Series(["0:9", "127:0", None, "x"])).rows()
    [(0, 9, False), (127, 0, False), (None, None, False), (None, None, True)]
    """
    codes = by_distinct(text, _exit_code, {"code": pl.Int64(), "signal": pl.Int64()})
    return codes.with_columns((text.is_not_null() & codes["code"].is_null()).alias("lost"))


def _exit_code(text: str) -> tuple[int | None, int | None]:
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text.strip(), re.ASCII)
    return (int(match[1]), int(match[2])) if match else (None, None)


# --- states --------------------------------------------------------------------------------------------

ENDED_STATES: Final = (
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "OUT_OF_MEMORY",
    "BOOT_FAIL",
    "DEADLINE",
    "REQUEUED",
    "RESIZING",
    "REVOKED",
)
OPEN_STATES: Final = ("PENDING", "RUNNING", "SUSPENDED")
ACCOUNTED_STATES: Final = ENDED_STATES + OPEN_STATES
OTHER_STATES: Final = (
    "COMPLETING",
    "CONFIGURING",
    "EXPEDITING",
    "LAUNCH_FAILED",
    "POWER_UP_NODE",
    "RECONFIG_FAIL",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "RESV_DEL_HOLD",
    "SIGNALING",
    "SPECIAL_EXIT",
    "STAGE_OUT",
    "STOPPED",
)
"""States of squeue and scontrol; accounting does not store them."""

_WORDS = re.compile("[A-Za-z_]+")
_STATES = re.compile(r"([A-Za-z_]+)(\+?)[^\w\s]*(?:\s+by\s+(\S+))?.*", re.DOTALL)


def states(text: pl.Series) -> pl.DataFrame:
    """Columns `state` (upper case, without its tail), `cancelled_by` and `known`.

    A word cut by a narrow column (`CANCE+`) is completed if only one state begins so. Of several words, as in the
    lists of Slurm's JSON, the first that accounting uses is the state and the others are flags, but PENDING gives way:
    a record closed by a requeue is stored as that and a flag. Unknown words are kept: a later Slurm may
    have invented them.

    >>> states(pl.Series(["CANCELLED by 2001", "node_f+", "NOVEL"])).rows()
    [('CANCELLED', '2001', True), ('NODE_FAIL', None, True), ('NOVEL', None, False)]
    >>> states(pl.Series(['["RUNNING","COMPLETING"]', '{"current":["PENDING","REQUEUED"]}']))["state"].to_list()
    ['RUNNING', 'REQUEUED']
    """
    return by_distinct(text, _state, {"state": pl.String(), "cancelled_by": pl.String(), "known": pl.Boolean()})


def _state(text: str) -> tuple[str | None, str | None, bool]:
    match = _STATES.fullmatch(_first_state(text.strip()))
    if match is None:
        return None, None, False
    word = match[1].upper()
    for group in (ACCOUNTED_STATES, OTHER_STATES):
        whole = [state for state in group if state == word or (match[2] and state.startswith(word))]
        if len(whole) == 1:
            return whole[0], match[3], True
    return word, match[3], False


def _first_state(text: str) -> str:
    """The word of a list that is the state; any other text as it is."""
    if text[:1] not in {"[", "{"} and "," not in text:
        return text
    words: list[str] = _WORDS.findall(text.partition("[")[2].partition("]")[0] or text)
    ranked = sorted((word for word in words if word.upper() in ACCOUNTED_STATES), key=lambda word: word == "PENDING")
    return next(iter(ranked or words), "")


# --- job ids -------------------------------------------------------------------------------------------

STEP: Final = r"\.(batch|extern|interactive|TBD|[a-zA-Z]*\+|\d+(?:\+\d+)?)\s*$"
"""Ending of a step's id: a number, a name, or cut off. `123.server` is of another scheduler."""

JOB_ID: Final = rf"^(\d{{1,18}})(?:_(?:(\d{{1,18}})|\[([^\]]*)\]?))?(?:\+(\d{{1,18}}))?(?:{STEP})?$"
"""Job, array task, tasks not yet split off, het component, step."""

JOB_ID_SCHEMA: Final[Schema] = {
    "base": pl.String(),
    "task": pl.Int64(),
    "tasks": pl.String(),
    "het": pl.Int64(),
    "step": pl.String(),
}


def job_ids(text: pl.Series) -> pl.DataFrame:
    """Columns `base`, `task`, `tasks` (`2-4%2` of a pending array), `het` and `step`; all null where unreadable.

    >>> job_ids(pl.Series(["1000_2+3.1", "10_[2-4%2]"])).rows()
    [('1000', 2, None, 3, '1'), ('10', None, '2-4%2', None, None)]
    """
    whole = text.cast(pl.Int64, strict=False)
    unset = whole.is_in(_MARKS)
    if whole.null_count() == 0 and not (text.str.starts_with("+") | text.str.starts_with("-")).any():
        return pl.DataFrame({"base": text.set(unset, None)}).select(
            "base", *(pl.lit(None, dtype).alias(name) for name, dtype in JOB_ID_SCHEMA.items() if name != "base")
        )
    parts = text.alias("text").to_frame().select(pl.col("text").str.extract_groups(JOB_ID)).unnest("text")
    parts.columns = list(JOB_ID_SCHEMA)
    parts = parts.with_columns(pl.col("task", "het").cast(pl.Int64, strict=False))
    return parts.with_columns(
        pl.when(~unset.fill_null(value=False)).then("base").alias("base"),
        pl.col("task", "het").replace(_MARKS, None),
    )
