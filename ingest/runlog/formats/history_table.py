"""Logged values that were exported as a table with a time in each row: W&B's history, and a scalar of TensorBoard.

    ,_step,_timestamp,train/loss           run.history().to_csv(FILE) of W&B's public API
    {"_step":0,"_timestamp":1.79e9,...}    the same as lines of JSON: to_json(FILE, orient="records", lines=True)
    [{"_step":0,"_timestamp":1.79e9,...},  the same as one list: json.dump(list(run.scan_history()), file)
    Wall time,Step,Value                   the download button of a chart in TensorBoard

The columns of W&B mean what they do in its own files (`ingest.runlog.series`). A scalar of TensorBoard has no name in
its table, so its steps and their times are known and its value is not.
"""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import msgspec

from ingest.delimited.reader import clean_blocks
from ingest.errors import InputError
from ingest.files.json_texts import BrokenTextError, json_texts
from ingest.load_warnings import LoadWarning
from ingest.runlog.formats.csv_rows import csv_rows
from ingest.runlog.series import AHEAD, Names, Point, ProcessSteps, as_number, encode, joined, point, tokens_of_step
from ingest.runlog.translation import Findings, LogFormat, LogRequest, RefusedLine
from ingest.tables import RAW_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_BLOCK: Final = 1 << 23

_OF_WANDB: Final = {"_step", "_timestamp"}
_OF_TENSORBOARD: Final = {"Wall time", "Step", "Value"}

_ROW: Final = re.compile(rb'\{(?=[^\n]*"_timestamp":)(?=[^\n]*"_step":)(?![^\n]*"_wandb":)[^\n]*\}\r?\n\s*\{')
"""Two rows of JSON. The summary of a run, which W&B keeps beside its log, has such keys, too, and is one object."""

_LISTED: Final = re.compile(rb'\[\s*\{(?=[^{}]*"_timestamp":)(?=[^{}]*"_step":)')
"""The first row of a list."""

_NEXT_ROW: Final = re.compile(r"\}\s*,\s*\{")
_LONGEST_ROW: Final = 1 << 20
"""Characters; a row that is longer is taken as damaged."""

_BETWEEN: Final = re.compile(r"[\s,\[\]]*")
"""Characters between the rows of a list, and around them."""


def read(chunks: Iterable[bytes], request: LogRequest, findings: Findings) -> Iterator[bytes]:
    """The table as a run log.

    Raises:
        InputError: no row has a value that is known to be one of a training step.
    """
    names, steps, begun = Names(request.facts), ProcessSteps(tokens_of_step(request.facts)), False
    n_averaged = 0
    points = joined(_points(_rows(chunks, findings), names, findings))
    first = list(islice(points, AHEAD))
    steps.look_ahead(first)
    for logged in chain(first, points):
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
    findings.n_duplicates += steps.n_repeated
    if n_averaged:
        findings.warnings.append(LoadWarning("steps_averaged", n_averaged))


def _time(row: Mapping[str, object]) -> float | None:
    return as_number(row.get("_timestamp", row.get("Wall time")))


def _step(row: Mapping[str, object]) -> int | None:
    step = as_number(row.get("_step", row.get("Step")))
    return None if step is None or step < 0 else round(step)


def _missing(row: Mapping[str, object], names: Names) -> str:
    """Why a row is refused; empty if it has a time, and no value of a training step that would need a number."""
    if not _time(row):
        return "the row has no time"
    needs_number = row.keys() >= _OF_TENSORBOARD - {"Step"} or names.chosen(row)
    return "the row has no number of a step" if needs_number and _step(row) is None else ""


def _points(rows: Iterable[tuple[int, Mapping[str, object]]], names: Names, findings: Findings) -> Iterator[Point]:
    for number, row in rows:
        logged = _point(row, names)
        if logged is not None:
            yield logged
        elif reason := _missing(row, names):
            findings.refused.append(RefusedLine(number, reason, str(row)[:RAW_LIMIT]))


def _point(row: Mapping[str, object], names: Names) -> Point | None:
    moment, step = _time(row), _step(row)
    if moment is None:
        return None
    if row.keys() >= _OF_TENSORBOARD:
        return None if step is None else Point(step, moment)
    return point(names.chosen(row), step, moment)


def _rows(chunks: Iterable[bytes], findings: Findings) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The values of each row by their columns, with the number of its line; an empty cell has none."""
    blocks = (block.decode() for block, _ in clean_blocks(chunks, "history", _BLOCK))
    beginning = next(blocks, "")
    every = chain([beginning], blocks)
    if (opened := beginning.lstrip()[:1]) in {"{", "["}:
        for number, row in (_of_json if opened == "{" else _of_list)(every, findings):
            yield number, {name: value for name, value in row.items() if value is not None}
        return
    for number, cells in csv_rows(every, findings):
        yield number, {name: _value(each) for name, each in cells.items() if each != ""}


def _of_json(blocks: Iterator[str], findings: Findings) -> Iterator[tuple[int, Mapping[str, object]]]:
    for number, line in enumerate((line for block in blocks for line in block.splitlines()), 1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line, type=dict[str, object])
        except (msgspec.DecodeError, RecursionError):
            findings.refused.append(RefusedLine(number, "no row of JSON", line[:RAW_LIMIT]))
            continue
        yield number, row


def _of_list(blocks: Iterator[str], findings: Findings) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The rows of a list, with their numbers in it; one that is cut or damaged is refused, and those behind it read."""
    number, rest, ended = 0, "", False
    while rest or not ended:
        block = next(blocks, "")
        ended, text = not block, rest + block
        rest = ""
        try:
            for row, raw in json_texts(text, between=_BETWEEN):
                number += 1
                if isinstance(row, dict):
                    yield number, row
                else:
                    findings.refused.append(RefusedLine(number, "no row of JSON", raw[:RAW_LIMIT]))
        except BrokenTextError as error:
            rest = text[error.at :]
        if rest and (ended or len(rest) > _LONGEST_ROW):
            number += 1
            findings.refused.append(RefusedLine(number, "no row of JSON", rest[:RAW_LIMIT]))
            rest = rest[behind.end() - 1 :] if (behind := _NEXT_ROW.search(rest)) else ""


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
    if text[:1] in {b"{", b"["}:
        return (_ROW.match(text) or _LISTED.match(text)) is not None
    columns = {each.strip(b'" \r').decode("utf-8", "replace") for each in text.partition(b"\n")[0].split(b",")}
    return columns >= _OF_WANDB or columns == _OF_TENSORBOARD


FORMAT: Final = LogFormat("history-table", "exported history of W&B or TensorBoard", _is_table, read)
