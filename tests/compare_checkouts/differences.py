"""Differences between two folders of outputs, each with the place inside the file where it is."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, TypeAlias

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Place: TypeAlias = tuple[str, object, object]
"""Where in a file a difference is, and the old and new value."""

SHOWN_LENGTH: Final = 100
"""Characters of a value that a difference shows."""


@dataclass(frozen=True)
class Difference:
    """One place where two outputs differ.

    Attributes:
        part: the file, relative to the folder of outputs.
        where: a column of a table, a path in JSON, a metric family, or a line of a text.
        old: what the old checkout has there.
        new: what the new checkout has there.
    """

    part: str
    where: str
    old: str
    new: str


def compare_folders(old: Path, new: Path) -> dict[str, list[Difference]]:
    """The differences of each file that either folder has; an empty list where both are the same."""
    parts = sorted(_files(old) | _files(new))
    return {part: list(_of_part(part, old / part, new / part)) for part in parts}


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def _of_part(part: str, old: Path, new: Path) -> Iterator[Difference]:
    for path, sides in ((old, ("missing", "present")), (new, ("present", "missing"))):
        if not path.is_file():
            yield Difference(part, "file", *sides)
            return
    if old.read_bytes() == new.read_bytes():
        return
    compare = COMPARE.get(old.suffix, compare_texts)
    for where, left, right in compare(old, new):
        yield Difference(part, where, _short(left), _short(right))


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= SHOWN_LENGTH else f"{text[:SHOWN_LENGTH]}..."


def compare_tables(old: Path, new: Path) -> Iterator[Place]:
    """Columns whose values differ, whatever the order of the rows."""
    left, right = pl.read_parquet(old), pl.read_parquet(new)
    for name in sorted(set(left.columns) ^ set(right.columns)):
        yield f"column {name}", _presence(name in left.columns), _presence(name in right.columns)
    common = [name for name in left.columns if name in right.columns]
    if left.height != right.height:
        yield "number of rows", left.height, right.height
        return
    same = []
    for name in common:
        different = _first_different(left[name], right[name])
        if different is None:
            same.append(name)
        else:
            yield name, *different
    if not _sorted(left.select(same)).equals(_sorted(right.select(same))):
        yield "combination of columns", "", ""


def _presence(present: bool) -> str:
    return "present" if present else "missing"


def _first_different(old: pl.Series, new: pl.Series) -> tuple[object, object] | None:
    """The first values of the two sorted columns that differ."""
    if old.dtype != new.dtype:
        return old.dtype, new.dtype
    left, right = (_sorted(column.to_frame()).to_series() for column in (old, new))
    if left.equals(right):
        return None
    return next((one, other) for one, other in zip(left, right, strict=True) if not _equal(one, other))


def _equal(one: object, other: object) -> bool:
    return repr(one) == repr(other)


def _sorted(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows in an order that depends on their values alone; lists are compared as text."""
    lists = [name for name, dtype in rows.schema.items() if dtype.is_nested()]
    flat = rows.with_columns(pl.Series(name, [repr(value) for value in rows[name].to_list()]) for name in lists)
    return flat.sort(flat.columns) if flat.columns else flat


def compare_json(old: Path, new: Path) -> Iterator[Place]:
    """The first difference at each path; the members of a list share the path `[]`."""
    try:
        left, right = (json.loads(path.read_text("utf-8")) for path in (old, new))
    except ValueError:
        yield from compare_texts(old, new)
        return
    places: dict[str, tuple[object, object]] = {}
    for where, one, other in _of_values(left, right, "$"):
        places.setdefault(where, (one, other))
    if not places:  # only the order of keys, the number of spaces or the way a number is written
        yield from compare_texts(old, new)
    for where, (one, other) in places.items():
        yield where, one, other


def _of_values(old: object, new: object, where: str) -> Iterator[Place]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _of_values(old.get(key, "missing"), new.get(key, "missing"), f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        for one, other in zip_longest(old, new, fillvalue="missing"):
            yield from _of_values(one, other, f"{where}[]")
    elif repr(old) != repr(new):
        yield where, old, new


def compare_metrics(old: Path, new: Path) -> Iterator[Place]:
    """Metric families whose lines differ."""
    left, right = (Counter(path.read_text("utf-8").splitlines()) for path in (old, new))
    missing, added = _by_family(left - right), _by_family(right - left)
    for family in sorted({*missing, *added}):
        yield family, missing.get(family, "missing"), added.get(family, "missing")
    if not missing and not added:
        yield from compare_texts(old, new)


def _by_family(lines: Counter[str]) -> dict[str, str]:
    """The first line of each family."""
    first: dict[str, str] = {}
    for line in lines:
        result = re.match(r"(?:# (?:HELP|TYPE|UNIT) )?(\w+)", line)
        first.setdefault(result[1] if result else "text", line)
    return first


def compare_texts(old: Path, new: Path) -> Iterator[Place]:
    """The first line that differs; for bytes that are no text, only that they do."""
    try:
        left, right = (path.read_text("utf-8").splitlines() for path in (old, new))
    except UnicodeDecodeError:
        yield "bytes", old.stat().st_size, new.stat().st_size
        return
    for number, (one, other) in enumerate(zip_longest(left, right, fillvalue="missing"), 1):
        if one != other:
            yield f"line {number}", one, other
            return
    yield "white space", "", ""


COMPARE: Final[dict[str, Callable[[Path, Path], Iterator[Place]]]] = {
    ".parquet": compare_tables,
    ".json": compare_json,
    ".prom": compare_metrics,
}
"""How files are compared, by their ending; others are texts."""
