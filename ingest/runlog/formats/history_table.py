"""Logged values that were exported as a table with a time in each row: W&B's history, and a scalar of TensorBoard.

    ,_step,_timestamp,train/loss           run.history().to_csv(FILE) of W&B's public API
    {"_step":0,"_timestamp":1.79e9,...}    the same as lines of JSON: to_json(FILE, orient="records", lines=True)
    Wall time,Step,Value                   the download button of a chart in TensorBoard

The columns of W&B mean what they do in its own files (`ingest.runlog.series`). A scalar of TensorBoard has no name in
its table, so its steps and their times are known and its value is not.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from ingest.delimited.reader import clean_blocks
from ingest.errors import InputError
from ingest.load_warnings import LoadWarning
from ingest.runlog.formats.csv_rows import csv_rows
from ingest.runlog.series import Names, Point, StepLines, as_number, encode, point, tokens_of_step
from ingest.runlog.translation import Account, LogFormat, LogRequest, Refused
from ingest.tables import RAW_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_BLOCK: Final = 1 << 23

_OF_WANDB: Final = {"_step", "_timestamp"}
_OF_TENSORBOARD: Final = {"Wall time", "Step", "Value"}

_ROW: Final = re.compile(rb'\{(?=[^\n]*"_timestamp":)(?=[^\n]*"_step":)(?![^\n]*"_wandb":)[^\n]*\}\r?\n\s*\{')
"""Two rows of JSON. The summary of a run, which W&B keeps beside its log, has such keys, too, and is one object."""


def read(chunks: Iterable[bytes], request: LogRequest, account: Account) -> Iterator[bytes]:
    """The table as a run log.

    Raises:
        InputError: no row has a value that is known to be one of a training step.
    """
    names, steps, begun = Names(request.facts), StepLines(tokens_of_step(request.facts)), False
    n_averaged = 0
    for number, row in _rows(chunks, account):
        logged = _point(row, names)
        if logged is None:
            if not _time(row):
                account.refused.append(Refused(number, "the row has no time", str(row)[:RAW_LIMIT]))
            continue
        lines = list(steps.of(logged))
        n_averaged += len(lines) if len(lines) > 1 else 0
        if not begun:
            yield encode({"type": "run", "v": 1, "t": steps.first, **request.run_facts()})
            begun = True
        yield from lines
    if not begun:
        values = ", ".join(names.unknown()) or "none"
        raise InputError(
            "no value in it is known to be one of a training step; name the column of one: --set loss_key=NAME\n"
            f"Its columns: {values}"
        )
    if n_averaged:
        account.warnings.append(LoadWarning("steps_averaged", n_averaged))


def _time(row: Mapping[str, object]) -> float | None:
    return as_number(row.get("_timestamp", row.get("Wall time")))


def _point(row: Mapping[str, object], names: Names) -> Point | None:
    moment, step = _time(row), as_number(row.get("_step", row.get("Step")))
    if moment is None or step is None:
        return None
    if row.keys() >= _OF_TENSORBOARD:
        return Point(round(step), moment)
    return point(names.chosen(row), round(step), moment)


def _rows(chunks: Iterable[bytes], account: Account) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The values of each row by their columns, with the number of its line; an empty cell has none."""
    blocks = (block.decode() for block, _ in clean_blocks(chunks, "history", _BLOCK))
    beginning = next(blocks, "")
    every = chain([beginning], blocks)
    if beginning.lstrip().startswith("{"):
        yield from _of_json(every, account)
        return
    for number, cells in csv_rows(every, account):
        yield number, {name: _value(each) for name, each in cells.items() if each != ""}


def _of_json(blocks: Iterable[str], account: Account) -> Iterator[tuple[int, Mapping[str, object]]]:
    for number, line in enumerate((line for block in blocks for line in block.splitlines()), 1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line, type=dict[str, object])
        except (msgspec.DecodeError, RecursionError):
            account.refused.append(Refused(number, "no row of JSON", line[:RAW_LIMIT]))
            continue
        yield number, {name: value for name, value in row.items() if value is not None}


def _value(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


def _is_table(head: bytes) -> bool:
    r"""Whether it begins with the columns of an exported history.

    >>> [_is_table(head) for head in (b",_step,_timestamp,loss", b'"Wall time","Step","Value"', b"step,time,loss")]
    [True, True, False]
    """
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"{"):
        return _ROW.match(text) is not None
    columns = {each.strip(b'" \r').decode("utf-8", "replace") for each in text.partition(b"\n")[0].split(b",")}
    return columns >= _OF_WANDB or columns == _OF_TENSORBOARD


FORMAT: Final = LogFormat("history-table", "exported history of W&B or TensorBoard", _is_table, read)
