"""The messages of an event file that are read (tensorflow/core/util/event.proto, framework/summary.proto).

Event    1 wall_time (double), 2 step (int64), 3 file_version, 5 summary
Summary  1 value: 1 tag, 2 simple_value (float), 8 tensor
Tensor   1 dtype, 2 shape (2 dim), 4 content, 5 floats, 6 doubles, 7 ints, 8 strings, 10 longs
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ingest.runlog.binary import SIZED, WireError, fields, message_of, number_of, signed, text_of, varint

if TYPE_CHECKING:
    from ingest.runlog.binary import Value

_FORMATS: Final = {1: "<f", 2: "<d", 3: "<i", 9: "<q", 19: "<e"}
"""How struct reads a number of each data type: float, double, int32, int64, half."""

_STRING: Final = 7
_BFLOAT16: Final = 14


@dataclass
class TensorBoardEvent:
    """One event.

    Attributes:
        wall_time: seconds since 1970.
        step: as the program counts.
        scalars: numbers by tag.
        texts: texts by tag.
    """

    wall_time: float = 0.0
    step: int = 0
    scalars: dict[str, float] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)


def event(message: bytes) -> TensorBoardEvent:
    """An event.

    Raises:
        WireError: it is none.
    """
    parsed = TensorBoardEvent()
    for number, wire, value in fields(message):
        if number == 1:
            parsed.wall_time = number_of(value, wire) or 0.0
        elif number == 2 and isinstance(value, int):
            parsed.step = signed(value)
        elif number == 5:
            for at, _, part in fields(message_of(value)):
                if at == 1:
                    _add_value(parsed, message_of(part))
    return parsed


def _add_value(parsed: TensorBoardEvent, message: bytes) -> None:
    tag, scalar = "", None
    for number, wire, value in fields(message):
        if number == 1:
            tag = text_of(value)
        elif number == 2:
            scalar = number_of(value, wire)
        elif number == 8:
            content = _tensor(message_of(value))
            if isinstance(content, bytes):
                parsed.texts[tag] = content
            else:
                scalar = content
    if scalar is not None:
        parsed.scalars[tag] = scalar


def _tensor(message: bytes) -> float | bytes | None:
    """A tensor of one number as that, one of text as its first; None for all others."""
    kind, size, content = 0, 1, None
    for number, wire, value in fields(message):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 2:
            size = _size(message_of(value))
        elif number in {4, 5, 6, 7, 8, 10} and content is None:
            content = number, wire, value
    if content is None or (size != 1 and kind != _STRING):
        return None
    number, wire, value = content
    if kind == _STRING:
        return message_of(value) if number == 8 else None
    return _number(kind, *content)


def _number(kind: int, number: int, wire: int, value: Value) -> float | None:
    if wire != SIZED:
        return float(signed(value)) if isinstance(value, int) else number_of(value, wire)
    data = message_of(value)
    if number in {7, 10}:
        return float(signed(varint(data, 0)[0]))
    if number == 4 and kind == _BFLOAT16:
        data, kind = b"\x00\x00" + data[:2], 1
    form = {5: "<f", 6: "<d"}.get(number) or _FORMATS.get(kind)
    if form is None:
        return None
    if len(data) < struct.calcsize(form):
        raise WireError("a tensor that is shorter than a number")
    return float(struct.unpack_from(form, data)[0])


def _size(shape: bytes) -> int:
    """How many numbers a tensor of this shape has."""
    size = 1
    for number, _, value in fields(shape):
        if number == 2:
            sizes = [part for at, _, part in fields(message_of(value)) if at == 1 and isinstance(part, int)]
            size *= sizes[0] if sizes else 0
    return size
