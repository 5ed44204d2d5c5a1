"""The manual's page about performance, from the results of `make bench`."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE: Final = Path(__file__).parents[2] / "app/docs/developing/performance.md"

_INTRODUCTION: Final = """\
# Performance

What Trackside's work costs, and how that grows. `make bench` writes this page from what it measured; `make bench
ONLY=engine` measures a part and keeps the other results, `make bench YEAR=1` adds a year of 16,384 GPUs. How it
measures is in [Benchmarks](benchmarks.md). A year of fewer nodes can miss the goal of the whole year and cannot hold
it: then there is no verdict.

A ratio compares two processes of the same run on the same machine, so a slow or busy machine slows both. A goal is for
the ratio. CPU time is of the user and the system, of all threads; the load is that of the machine (tasks that run or
wait) when the measurement began.
"""

_PEOPLE: Final = """\
## People at once

`python -m tests.bench.visitors WAREHOUSE 50 300` on a year of 256 nodes (325,284 attempts), on two cores that nothing
else used; each person's browser requests six sections at once:

- 50 people for five minutes: no error in 29,451 requests, p95 0.02 s, 2 ms of CPU each. One person's p95 was 0.01 s on
  a later visit and 1.3 s on the first one after a publication, for which all is computed (166 ms of CPU each).
- The server had 577 MiB at the beginning, and 635 to 641 in the second half.
- A first visit waits longest for the sections of My jobs and for use by user: 1.3 to 1.6 s each, six at once.

These are visits of pages that nobody had opened before. Pages that somebody opened during the last day are computed
ahead after each publication (at most 24 addresses, for at most a minute): on that year all sections of eleven pages
then took 0.75 CPU seconds, and 10.4 without. Computing them ahead took 11.

The same on the demo's two months for ten minutes, beside other work on both cores: no error in 55,047 requests, p95
0.29 s; 516 MiB at the beginning, 591 in the middle and 599 at the end.

The first page costs the server 0.9 CPU seconds on 23 days of 2,048 nodes (163,836 attempts), and 1.0 on that year, most
of it for the sums of the ledger and what interruptions cost, which grow with the attempts. It is computed when the
server starts and after each publication, before anyone opens it.
"""

_NAMES: Final = """\
## Names, not numbers

An attempt is known by four columns (cluster, scheduler, job, submission) in the ledger and in every join. Whether
numbers in their place would pay was measured on a year of 512 nodes (649,629 attempts, 4.7 million ledger rows):

- On disk the three columns that a number would replace in the ledger are 17 of its 97 MB, since DuckDB compresses
  them; its times and GPU-seconds are 69 MB. A number would take some of the 17, too.
- A join of all attempts by the four columns takes 0.18 CPU seconds in polars, by a number 0.07. Joins of all kinds
  are 43 % of polars' time, and polars 9.3 of the 20.8 CPU seconds of a computation after a new day: numbers would
  save at most 2.4 of them.
- The file has 342 MB, of which 208 are in use: rows that a computation replaced leave the rest. Published copies
  take as much again.

So names stay. What would pay more is fewer passes over all attempts, and computing GPU-seconds instead of storing them.
"""

_IN_TEXTS: Final = (
    "Attempts are known by four texts in every join, and rows pass from the warehouse to frames and back."
)

_START: Final = "Most of it is the start of Python, polars and DuckDB: it costs nearly as much on a small warehouse."

_DIGEST: Final = (
    "The SHA-256 of the file, by which a repetition is known, takes 2.6 ns a byte on a processor without instructions "
    "for it, most of the time of a bare read of lines without steps."
)

REASONS: Final = {
    "compute after a new day": (
        "The ledger is made of the changed days only, standard windows of changed inputs only, and runs, their "
        "numbers and interruptions of changed attempts only. But all attempts are read, and the whole period's "
        "numbers are made of the rows of all runs, so this grows with the past."
    ),
    "compute --full": _IN_TEXTS,
    "compute, all but a day": _IN_TEXTS,
    "compute, nothing new": "Nothing is read but the inputs' digest; the rest is the start of Python and DuckDB.",
    **dict.fromkeys(("verify", "show", "status"), _START),
    "a day of": "Samples are grouped by GPU and hour through texts, which costs several times what reading them does.",
    "ingest": "Known rows are looked up among all rows.",
    "run log": "Each line is validated as a Python object. " + _DIGEST,
    "stdout of": (
        "The bare read keeps no line numbers, prefixes, sessions or events, and validates and stores nothing. "
        + _DIGEST
    ),
    "memory": (
        "Frames of all attempts are held, with those of their nodes until the ledger is made, and with those of their "
        "runs afterwards. Of the rest DuckDB's share is bounded by `[engine]`; it is the smaller one."
    ),
}
"""Why a goal is missed, by how the row's name begins, or by what it measures."""


def page(results: Sequence[dict[str, Any]]) -> str:
    """The page as Markdown.

    Args:
        results: rows of `tests.bench.table.row` with `section`, `machine`, `versions` and `load`.
    """
    parts = [_INTRODUCTION]
    for section, rows in itertools.groupby(results, key=lambda each: str(each["section"])):
        parts.append("\n".join(_section(section, list(rows))))
    return "\n".join([*parts, _NAMES, _PEOPLE])


def _section(title: str, rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    first = rows[0]
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    yield f"## {title[:1].upper()}{title[1:]}\n"
    yield f"{first['machine']}; {versions}; load {first['load']:.0f}.\n"
    yield "| what | measured | against | ratio | goal | |"
    yield "|---|---:|---|---:|---:|---|"
    yield from map(_line, rows)
    missed = [each for each in rows if each["holds"] is False]
    if missed:
        yield "\nMissed:\n"
        yield from dict.fromkeys(f"- {_why(str(each['name']))}" for each in missed)
    yield ""


def _line(each: dict[str, Any]) -> str:
    goal, verdict = (
        ("", "") if each["goal"] is None else (f"{each['goal']:.3g}", "holds" if each["holds"] else "missed")
    )
    measured = (
        f"{each['value']:,.4g} {each['unit']}" if each["value"] < _WHOLE else f"{each['value']:,.0f} {each['unit']}"
    )
    return f"| {each['name']} | {measured} | {each['baseline_is']} | {each['ratio']:.2f} | {goal} | {verdict} |"


_WHOLE: Final = 1000


def _why(name: str) -> str:
    """What was measured, and why it misses its goal."""
    kind = "memory" if name.endswith("memory") else name
    subject = name.partition(":")[0]
    reason = next((text for begins, text in REASONS.items() if kind.startswith(begins)), "The reason is not known yet.")
    return f"{subject}{', memory' if kind == 'memory' else ''}: {reason}"
