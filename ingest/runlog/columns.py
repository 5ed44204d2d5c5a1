"""Steps of a run log as columns: readers of other formats may pass these on instead of one line per step.

Columns: `step`, `t` (seconds since 1970), `duration_s`, `tokens`, `loss` (as in a `step` line), and `line`: the number
of the log line from which the step was made. They belong to the session of the `run` line before them.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import polars as pl

from ingest.delimited.reader import clean_blocks
from ingest.plausible import EARLIEST_S, LATEST_S, RUN_LOG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def lines_of(steps: pl.DataFrame) -> bytes:
    """The same steps as lines of a run log."""
    return steps.select(pl.lit("step").alias("type"), pl.all()).write_ndjson().encode()


def are_plain(steps: pl.DataFrame) -> bool:
    """Whether all rows are valid steps of a run log: times, numbers and amounts are within their bounds."""
    t, step = pl.col("t"), pl.col("step")
    amounts = (
        pl.col(name).fill_null(0).is_between(0, float("inf"), closed="left") for name in ("duration_s", "tokens")
    )
    whole = pl.all_horizontal(
        t.is_between(EARLIEST_S, LATEST_S), step.is_between(0, int(RUN_LOG["step"].most)), *amounts
    )
    return bool(steps.select(whole.fill_null(value=False).all()).item())


def blocks(
    chunks: Iterable[bytes | pl.DataFrame], origin: str, block: int
) -> Iterator[tuple[bytes | pl.DataFrame, int]]:
    """Lines in clean blocks, with the number of damaged characters in each; and columns as they come between them.

    Raises:
        UnrecognisedInputError: lines that are all blank, where some are expected.
    """
    for are_lines, some in itertools.groupby(chunks, key=lambda chunk: isinstance(chunk, bytes)):
        if are_lines:
            yield from clean_blocks(some, origin, block)  # type: ignore[arg-type]  # they are bytes
        else:
            yield from ((steps, 0) for steps in some)
