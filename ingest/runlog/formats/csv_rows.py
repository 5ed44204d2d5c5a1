"""Rows of a log that is a CSV with a heading: Lightning's `metrics.csv`, and tables that were exported."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

from ingest.errors import InputError
from ingest.runlog.translation import Findings, RefusedLine
from ingest.tables import RAW_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def csv_rows(blocks: Iterable[str], findings: Findings) -> Iterator[tuple[int, dict[str, str]]]:
    """The cells of each row by their columns, with the number of its line; one of another width is refused.

    A heading may come again, with other columns: a process that goes on, or a second file behind the first.

    Args:
        blocks: whole lines; the heading comes first.
        findings: gets what is refused.

    Raises:
        InputError: the log is no CSV from some line on.
    """
    header: list[str] | None = None
    first = 1
    for block in blocks:
        try:
            rows = list(csv.reader(io.StringIO(block)))
        except csv.Error as error:
            raise InputError(f"the table is damaged behind line {first}: {error}") from None
        for number, row in enumerate(rows, first):
            if header is None or _is_heading(row, header):
                header = row
            elif len(row) == len(header):
                yield number, dict(zip(header, row, strict=True))
            elif row:
                raw = ",".join(row)[:RAW_LIMIT]
                findings.refused.append(RefusedLine(number, f"row of {len(row)} values, not {len(header)}", raw))
        first += len(rows)


def _is_heading(row: list[str], header: list[str]) -> bool:
    """Whether a row is a heading once more: it has two columns of the one before, and no number.

    >>> [_is_heading(row, ["epoch", "step", "loss"]) for row in (["step", "epoch"], ["0", "step"], ["nan", ""])]
    [True, False, False]
    """
    return len(set(row) & set(header) - {""}) >= _SAME and not any(cell[:1].isdigit() for cell in row)


_SAME: Final = 2
"""Columns of a heading that the next one has, too."""
