"""The differences between two SLA reports: every number and word of their JSON forms, part by part."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.json_text import as_json
from app.reports.bundle.compare import same

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from app.reports.sla.document import Document

SCHEMA: Final = {
    "section": pl.String,
    "part": pl.String,
    "field": pl.String,
    "was": pl.String,
    "now": pl.String,
    "difference": pl.Float64,
}

KEYS: Final[dict[str, tuple[str, ...]]] = {
    "gaps": ("since",),
    "calendars": ("file",),
    "objectives": ("id",),
    "credits": ("beyond",),
    "by_day": ("day",),
    "trend": ("period",),
    "headlines": ("metric",),
    "categories": ("category",),
    "parts": ("cause", "evidence"),
    "metrics": ("day",),
    "shown": ("run_id", "attempt_no"),
    "failure_rates": ("class", "counted", "size"),
    "published_rates": ("reference",),
    "declared": ("claim", "says"),
    "adjudications": ("id",),
    "changes": ("objective",),
    "definitions": ("metric",),
    "ledger_categories": ("category",),
    "sources": ("source",),
    "rejected": ("source", "reason"),
    "checks": ("name",),
    "reproduce": ("what",),
}
"""What names an object of a list, by the list's own name; objects of the same names are counted."""

_EXPLAINING: Final = ("trackside", "data", "claims", "contract", "constants", "adjudications", "exclusions")
"""Sections about the basis of the numbers in the others."""

Path = tuple[str, ...]
Leaf = str | int | float | bool | None
Row = tuple[str, str, str, str | None, str | None, float | None]


def differences(was: Document, now: Document) -> pl.DataFrame:
    """All that two reports give otherwise.

    Args:
        was: one report, as its JSON form has it.
        now: the other; of the same cluster and period, or not.

    Returns:
        `SCHEMA`, in the order of the reports: the section, the part of it (an objective, a category, an incident by run
        and attempt), its field, what either report has, and of two numbers the second less the first. An object of a
        list that one report lacks is one row (`there`). Sums in another order are no difference.
    """
    ours, theirs = _FlatReport(_without_digest(was)), _FlatReport(_without_digest(now))
    leaves = dict.fromkeys([*ours.leaves, *theirs.leaves])
    rows = dict(compared for leaf in leaves for compared in _compared(leaf, ours, theirs))
    return pl.DataFrame(list(rows.values()), schema=SCHEMA, orient="row")


def reasons(found: pl.DataFrame) -> list[str]:
    """Sections in which what the numbers rest on is not the same: the data, claims, corrections, rules, version."""
    sections = set(found["section"])
    return [name for name in _EXPLAINING if name in sections]


_ABSENT: Final = object()


class _FlatReport:
    """A report as numbers and words by the way to each, and the ways to the objects of its lists."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.objects: set[Path] = set()
        self.leaves: dict[Path, Leaf] = dict(_leaves(report, self.objects))

    def missing(self, path: Path, other: _FlatReport) -> Path | None:
        """The outermost object around a place of the other report that is not here."""
        around = (path[:end] for end in range(1, len(path)))
        return next((each for each in around if each in other.objects and each not in self.objects), None)


def _compared(path: Path, ours: _FlatReport, theirs: _FlatReport) -> Iterator[tuple[Path, Row]]:
    """The row of a place where two reports differ; of an object that only one of them has, one for all of it."""
    was, now = ours.leaves.get(path, _ABSENT), theirs.leaves.get(path, _ABSENT)
    if _equal(was, now):
        return
    gone, new = theirs.missing(path, ours), ours.missing(path, theirs)
    if gone is not None or new is not None:
        whole = gone or new or path
        there = ("there", None) if gone is not None else (None, "there")
        yield whole, (whole[0], " ".join(whole[1:]), "", *there, None)
    else:
        yield path, _row(path, was, now)


def _without_digest(report: Document) -> dict[str, Any]:
    plain = {key: value for key, value in report.items() if key != "sha256"}
    daily = plain["daily"]
    return plain | {"daily": daily | {"gpu_seconds": dict(zip(daily["days"], daily["gpu_seconds"], strict=True))}}


def _leaves(value: Any, objects: set[Path], path: Path = (), of: str = "") -> Iterator[tuple[Path, Leaf]]:  # noqa: ANN401 - any JSON
    """Every number and word below a place with the way to it; of an object of a list its names are part of the way."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, objects, (*path, name), "metrics" if of == "metrics" else name)
    elif isinstance(value, list | tuple):
        for name, item in _by_key(value, KEYS.get(of, ())):
            objects.add((*path, name))
            yield from _leaves(item, objects, (*path, name), of)
    else:
        yield path, value


def _by_key(items: Iterable[Any], keys: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Items of a list by what names them: words by themselves, objects by their keys."""
    seen: Counter[str] = Counter()
    for item in items:
        parts = [item.get(key) for key in keys] if isinstance(item, dict) else [item]
        name = " ".join(str(each) for each in parts if each is not None)
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name} #{seen[name]}"), item


def _equal(was: object, now: object) -> bool:
    if _is_number(was) and _is_number(now):
        return same(float(was), float(now))  # type: ignore[arg-type]  # numbers
    return was is now if _ABSENT in {was, now} else was == now


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _row(path: Path, was: object, now: object) -> Row:
    section, *between = path
    part, field = (" ".join(between[:-1]), between[-1]) if between else ("", section)
    change = float(f"{float(now) - float(was):.6g}") if _is_number(was) and _is_number(now) else None  # type: ignore[arg-type]  # as above
    return section, part, field, _text(was), _text(now), change


def _text(value: object) -> str | None:
    if value is _ABSENT:
        return None
    if isinstance(value, float):
        return f"{value:.12g}"
    return value if isinstance(value, str) else as_json(value)
