"""Lightning's `metrics.csv` (CSVLogger): a column for each logged value, rows with most of them empty, and no times.

A step number that goes back is a step that was run again. The columns mean what they do in W&B and TensorBoard
(`ingest.runlog.series`). Steps are counted from 0. Where the loop logs how long a step took (`step_time`), `--begin`
places the steps.
"""

from __future__ import annotations

import codecs
import csv
from typing import TYPE_CHECKING, Final

from ingest.counted import counted
from ingest.delimited.reader import clean_blocks
from ingest.errors import InputError
from ingest.runlog.formats.csv_rows import csv_rows
from ingest.runlog.formats.untimed import Logged, place_rows
from ingest.runlog.lines import CUT
from ingest.runlog.series import Names, point
from ingest.runlog.translation import Findings, LogFormat, LogRequest, RefusedLine
from ingest.tables import RAW_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_BLOCK: Final = 1 << 23


def read(chunks: Iterable[bytes], request: LogRequest, findings: Findings) -> Iterator[bytes]:
    """The file as a run log."""
    rows: list[Logged] = []
    names = Names(request.facts)
    for number, values in _rows(chunks, findings):
        one = point(names.chosen(values), None, 0.0)
        if one is None or (one.loss is None and one.step_time is None):
            continue
        is_same = bool(rows) and rows[-1].step == one.step  # of its epoch, or of what a callback logs
        before = rows.pop() if is_same else Logged(one.step, None, None, None, number)
        rows.append(
            Logged(
                one.step,
                before.length if one.step_time is None else one.step_time,
                before.tokens if one.tokens is None else one.tokens,
                before.loss if one.loss is None else one.loss,
                before.line,
            )
        )
    if not rows:
        raise InputError("metrics.csv without a loss or the time of a step; name its column: --set loss_key=NAME")
    known = f"it records {counted(len(rows), 'row')} of steps {rows[0].step} to {rows[-1].step}"
    yield from place_rows(rows, request, findings, title="metrics.csv of Lightning", known=known)


def _rows(chunks: Iterable[bytes], findings: Findings) -> Iterator[tuple[int, Mapping[str, float]]]:
    """The values of each row by their columns, with its line; one of another width, or cut, is refused."""
    for number, cells in csv_rows(_whole_rows(chunks, findings), findings):
        yield number, {name: value for name, text in cells.items() if (value := _number(text)) is not None}


def _whole_rows(chunks: Iterable[bytes], findings: Findings) -> Iterator[str]:
    """The text up to the last end of a row: CSVLogger ends every row."""
    first = 1
    for block, _ in clean_blocks(chunks, "metrics.csv", _BLOCK):
        whole, end, cut = block.decode().rpartition("\n")
        if first == 1 and {"iter", "iter_time"} <= set(next(csv.reader([whole.partition("\n")[0]]), [])):
            raise InputError(_OF_LITGPT)
        yield whole + end
        first += (whole + end).count("\n")
        if cut.strip():
            findings.refused.append(RefusedLine(first, CUT, cut[:RAW_LIMIT]))


_OF_LITGPT: Final = (
    "metrics.csv of LitGPT: its `step` counts micro-batches, and it does not record which belong to a step. Load its "
    "printed output instead (litgpt pretrain ... > train.log)"
)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_metrics(head: bytes) -> bool:
    """Whether the first line has the columns that CSVLogger always writes."""
    columns = head.removeprefix(codecs.BOM_UTF8).partition(b"\n")[0].strip().split(b",")
    return len(columns) > 2 and {b"epoch", b"step"} <= set(columns)


FORMAT: Final = LogFormat("lightning-csv", "Lightning metrics.csv", _is_metrics, read=read)
