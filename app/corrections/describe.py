"""Texts of corrections, and corrections as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import polars as pl

from app.corrections.records import TITLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.corrections.records import Correction


def shortened(names: Sequence[object] | pl.Series) -> str:
    """The first names of a list, and how many more it has.

    >>> shortened(range(10)), shortened([])
    ('0, 1, 2, 3, 4, 5, 6, 7 and 2 more', 'none')
    """
    shown = [str(name) for name in list(names)[:8]]
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more if shown else "none"


def name_values(values: dict[str, Any]) -> str:
    """Names and values as text.

    >>> name_values({"class": "user", "cause": "failed", "node": None})
    'class user, cause failed'
    """
    order = ("class", "cause", "node")
    ordered = sorted(values.items(), key=lambda each: order.index(each[0]) if each[0] in order else len(order))
    return ", ".join(f"{name} {value}" for name, value in ordered if value is not None)


def describe_subject(correction: Correction) -> str:
    """The subject of a correction."""
    if correction.kind == "node_state":
        return f"node {correction.subject['node']}, {correction.subject['from']} to {correction.subject['until']}"
    jobs = ", ".join(f"job {job} of {submitted}" for _, job, submitted in correction.subject["attempts"][:3])
    more = len(correction.subject["attempts"]) - 3
    return jobs + (f" and {more} more" if more > 0 else "")


def describe_before(correction: Correction) -> str:
    """The derived value that a correction overrules."""
    if correction.kind == "cause":
        return name_values(correction.before)
    if correction.kind == "run_join":
        return f"run {correction.before['run']}"
    states = [
        f"{each['state']}{' (' + each['reason'] + ')' if each['reason'] else ''}"
        for each in correction.before["states"]
    ]
    return shortened(states) if states else "in service"


def describe_after(correction: Correction) -> str:
    """The corrected value."""
    if correction.kind == "cause":
        return name_values(correction.after)
    if correction.kind == "node_state":
        return str(correction.after["state"]).replace("_", " ")
    if "apart" in correction.after:
        return "a run of its own"
    _, job, submitted = correction.after["run_of"]
    return f"the run of job {job} of {submitted}"


def describe(correction: Correction) -> str:
    """A correction in one line."""
    change = f"{describe_before(correction)} -> {describe_after(correction)}"
    return f"{TITLES[correction.kind]} of {describe_subject(correction)}: {change}"


def as_rows(corrections: Sequence[Correction]) -> pl.DataFrame:
    """Corrections as rows, for tables and files."""
    rows = [
        {
            "id": each.id,
            "cluster": each.cluster,
            "made_at": each.made_at,
            "author": each.author,
            "reason": each.reason,
            "kind": each.kind,
            "subject": describe_subject(each),
            "before": describe_before(each),
            "after": describe_after(each),
            "withdrawn_at": each.withdrawn_at,
            "withdrawn_by": each.withdrawn_by,
            "withdrawn_reason": each.withdrawn_reason,
        }
        for each in corrections
    ]
    times = {"made_at", "withdrawn_at"}
    names = ("id", "cluster", "made_at", "author", "reason", "kind", "subject", "before", "after", "withdrawn_at",
             "withdrawn_by", "withdrawn_reason")  # fmt: skip
    schema = {name: pl.Datetime("us", "UTC") if name in times else pl.String() for name in names}
    return pl.DataFrame(rows, schema=cast("Any", schema))


SHOWN = {
    "id": ("id", "text"),
    "made_at": ("made", "time"),
    "author": ("author", "text"),
    "kind": ("kind", "text"),
    "subject": ("subject", "text"),
    "before": ("before", "text"),
    "after": ("after", "text"),
    "reason": ("reason", "text"),
}
"""Columns of the printed list, with headings and units."""

SHOWN_WITHDRAWN = {"withdrawn_at": ("withdrawn", "time"), "withdrawn_by": ("by", "text"),
                   "withdrawn_reason": ("because", "text")}  # fmt: skip
"""Further ones where withdrawn corrections are listed."""
