"""Slurm's short form of node lists: `gpu[01-03,7]-b,login1` and back to single names."""

from __future__ import annotations

import itertools
import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from ingest.tables import Schema

LIMIT: Final = 100_000
"""Names that one list may expand to. No machine is that large; a damaged range easily is."""

NO_NODES: Final = frozenset({"", "none assigned", "none", "(null)", "null", "n/a", "unknown"})
"""Slurm's words for no node."""

_ITEM = re.compile(r"(?:[\w.-]|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_NAME = r"^[A-Za-z0-9_.-]+$"
_NUMBERED = r"^(?<prefix>[A-Za-z0-9_.-]*)\[(?<ranges>[0-9]{1,17}(?:-[0-9]{1,17})?(?:,[0-9]{1,17}(?:-[0-9]{1,17})?)*)\]$"
_PREFIX = re.compile(r"[A-Za-z]+=")


class NodeListError(ValueError):
    """A node list that cannot be read. The message quotes the part that is wrong."""


def expand(text: str) -> list[str]:
    """All names in a node list, in its order and each once; no names where nothing was assigned.

    Brackets may occur several times in a name (their product is meant), and a suffix may follow them. Numbers keep
    the width of the first one.

    >>> expand("gpu[08-10],login1")
    ['gpu08', 'gpu09', 'gpu10', 'login1']
    >>> expand("r[1-2]n[3-4]")
    ['r1n3', 'r1n4', 'r2n3', 'r2n4']
    >>> expand("None assigned")
    []

    Raises:
        NodeListError: Unbalanced brackets, an empty or reversed range, an empty item, more than `LIMIT` names.
    """
    text = text.strip()
    if text.lower() in NO_NODES:
        return []
    names: dict[str, None] = {}
    for item in _items(_PREFIX.sub("", text, count=1)):
        names.update(dict.fromkeys(_names(item)))
        if len(names) > LIMIT:
            raise NodeListError(_too_many(text))
    return list(names)


def expand_column(texts: pl.Series) -> pl.DataFrame:
    """Each distinct text once: columns `text`, `nodes` (list of names; null if broken) and `error` (null if not).

    >>> expand_column(pl.Series(["n[1-2]", "n[1-2]", "n[3"])).sort("text").rows()
    [('n[1-2]', ['n1', 'n2'], None), ('n[3', None, "node list 'n[3': unbalanced bracket")]
    """
    distinct = texts.drop_nulls().unique().alias("text").to_frame()
    usual = pl.concat([_single(distinct.lazy()), _bracketed(distinct.lazy())]).collect()
    rest = distinct.join(usual, on="text", how="anti")["text"]
    rows = [(text, *_try_expand(text)) for text in rest]
    schema: Schema = {"text": pl.String(), "nodes": pl.List(pl.String()), "error": pl.String()}
    return pl.concat(
        [usual.with_columns(error=pl.lit(None, pl.String)), pl.DataFrame(rows, schema=schema, orient="row")]
    )


def _single(distinct: pl.LazyFrame) -> pl.LazyFrame:
    """The texts that are one name, all at once: columns `text` and `nodes`."""
    one = pl.col("text").str.contains(_NAME) & ~pl.col("text").str.to_lowercase().is_in(list(NO_NODES))
    return distinct.filter(one).select("text", nodes=pl.concat_list("text"))


def _bracketed(distinct: pl.LazyFrame) -> pl.LazyFrame:
    """The texts that are a name with numbers in brackets at its end, all at once; those that are sound only."""
    ranges = (
        distinct.select("text", pl.col("text").str.extract_groups(_NUMBERED).alias("parts"))
        .unnest("parts")
        .drop_nulls()
        .with_columns(pl.col("ranges").str.split(","))
        .explode("ranges")
        .with_columns(
            pl.col("ranges").str.extract(r"^(\d+)", 1).alias("low"),
            pl.col("ranges").str.extract(r"(\d+)$", 1).alias("high"),
        )
        .with_columns(pl.col("low").str.len_bytes().alias("width"), pl.col("low", "high").cast(pl.Int64))
        .with_columns((pl.col("high") - pl.col("low")).alias("more"))
    )
    sound = ranges.group_by("text").agg((pl.col("more").min() >= 0) & ((pl.col("more") + 1).sum() <= LIMIT))
    names = (
        ranges.join(sound.filter("more"), on="text", how="semi", maintain_order="left")
        .with_columns(pl.int_ranges("low", pl.col("high") + 1).alias("number"))
        .explode("number")
        .select(
            "text", pl.concat_str("prefix", pl.col("number").cast(pl.String).str.zfill(pl.col("width"))).alias("nodes")
        )
    )
    return names.group_by("text", maintain_order=True).agg(pl.col("nodes").unique(maintain_order=True))


def _try_expand(text: str) -> tuple[list[str] | None, str | None]:
    try:
        return expand(text), None
    except NodeListError as error:
        return None, str(error)


def _items(text: str) -> list[str]:
    """The list cut at the commas outside brackets."""
    items = _ITEM.findall(text)
    if ",".join(items) != text:  # something between the items is not one comma
        problem = "unbalanced bracket" if text.count("[") != text.count("]") else "an empty or damaged name"
        message = f"node list {_quote(text)}: {problem}"
        raise NodeListError(message)
    return items


@lru_cache(maxsize=65_536)
def _names(item: str) -> tuple[str, ...]:
    """The names of one item. Cached, because few items make up the many lists of a cluster."""
    parts = [_numbers(inside, item) if not plain else (plain,) for inside, plain in _PART.findall(item)]
    if math.prod(map(len, parts)) > LIMIT:
        raise NodeListError(_too_many(item))
    return tuple(map("".join, itertools.product(*parts)))


def _numbers(inside: str, item: str) -> tuple[str, ...]:
    """The expansion of one pair of brackets: `01-03,7` is 01, 02, 03, 7."""
    numbers: list[str] = []
    for part in inside.split(","):
        match = _RANGE.fullmatch(part)
        low, high = (match[1], match[2] or match[1]) if match else ("1", "0")
        if max(len(low), len(high)) > 18 or int(high) < int(low):
            message = f"node list {_quote(item)}: {_quote(part)} is not a range"
            raise NodeListError(message)
        if int(high) - int(low) >= LIMIT:
            raise NodeListError(_too_many(item))
        numbers.extend(f"{number:0{len(low)}d}" for number in range(int(low), int(high) + 1))
    return tuple(numbers)


def _too_many(text: str) -> str:
    return f"node list {_quote(text)}: more than {LIMIT:,} names"


def _quote(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "...")
