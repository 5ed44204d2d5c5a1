"""The messages of a `.wandb` file that are read: `wandb/proto/wandb_internal.proto`, from 0.16 to 0.31.

Record         2 history, 5 config, 7 stats, 11 telemetry, 17 run, 18 exit, 23 preempting, 26 environment
History, Config, Stats items   1 key, 2 nested_key, 16 value_json; of a History item since 0.28 also
3 none, 4 boolean, 5 integer (sint64), 6 number (double), 7 text, 8 json
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.runlog.binary import WireError, fields, message_of, number_of, signed, text_of, timestamp, zigzag

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ingest.runlog.binary import Value

HISTORY, CONFIG, STATS, TELEMETRY, RUN, EXIT, PREEMPTING, ENVIRONMENT = 2, 5, 7, 11, 17, 18, 23, 26
"""Numbers of the kinds of records."""

_FEATURE: Final = 3
_SHARED_MODE: Final = 67


@dataclass
class RunMessage:
    """The values of a run's own record."""

    run_id: str = ""
    host: str | None = None
    start: float | None = None
    config: dict[str, Any] = field(default_factory=dict)
    shared: bool = False
    resumed: bool = False
    """Whether an earlier process began it; `start` is then the time that this one would have begun without a break."""


@dataclass
class EnvironmentMessage:
    """Where a process ran, and when it began."""

    host: str | None = None
    started: float | None = None
    gpu_type: str | None = None
    slurm: dict[str, str] = field(default_factory=dict)

    def add(self, more: EnvironmentMessage) -> None:
        """Add the values of another part of the record."""
        self.host = more.host or self.host
        self.started = more.started or self.started
        self.gpu_type = more.gpu_type or self.gpu_type
        self.slurm |= more.slurm


def kind_of(record: bytes) -> tuple[int, bytes]:
    """The kind of a record, and its message; kind 0 where it has none.

    Raises:
        WireError: it is no message.
    """
    kind, message = 0, b""
    for number, wire, value in fields(record):
        if wire == 2 and number not in {16, 19, 200}:  # control, uuid, _info
            kind, message = number, message_of(value)
    return kind, message


def history(message: bytes) -> dict[str, Any]:
    """A row of the history: values by key. The keys of nested values are joined by dots."""
    row = dict(_flat(_items(message, 1)))
    for number, _, value in fields(message):
        if number == 2 and "_step" not in row:
            numbers = [num for at, _, num in fields(message_of(value)) if at == 1 and isinstance(num, int)]
            row["_step"] = signed(numbers[0]) if numbers else 0
    return row


def _flat(items: Iterable[tuple[str, Any]], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Items with those of nested ones; an object with a type of W&B's, such as a histogram, is a value.

    >>> list(_flat([("lr", 0.1), ("train", {"loss": 2.5, "h": {"_type": "histogram"}})]))
    [('lr', 0.1), ('train.loss', 2.5), ('train.h', {'_type': 'histogram'})]
    """
    for key, value in items:
        if isinstance(value, dict) and "_type" not in value and prefix.count(".") < _DEEPEST:
            yield from _flat(value.items(), f"{prefix}{key}.")
        else:
            yield prefix + key, value


_DEEPEST: Final = 8
"""Dots in a name up to which nested values are taken apart."""


def config(message: bytes) -> dict[str, Any]:
    """The settings in a record of the configuration."""
    return dict(_items(message, 1))


def stats(message: bytes) -> tuple[float, dict[str, Any]]:
    """Time and values of a sample of the system."""
    moment = next((timestamp(message_of(value)) for number, _, value in fields(message) if number == 2), 0.0)
    return moment, dict(_items(message, 3))


def run(message: bytes) -> RunMessage:
    """A run's own record."""
    parsed = RunMessage()
    for number, _, value in fields(message):
        if number == 1:
            parsed.run_id = text_of(value)
        elif number == 4:
            parsed.config = config(message_of(value))
        elif number == 13:
            parsed.host = text_of(value) or None
        elif number == 17:
            parsed.start = timestamp(message_of(value))
        elif number == 18:
            parsed.resumed = value == 1
        elif number == 19:
            parsed.shared = is_shared(message_of(value))
    return parsed


def is_shared(telemetry: bytes) -> bool:
    """Whether several processes write this run (W&B's shared mode)."""
    features = [message_of(value) for number, _, value in fields(telemetry) if number == _FEATURE]
    return any(number == _SHARED_MODE and value == 1 for feature in features for number, _, value in fields(feature))


def exit_code(message: bytes) -> int:
    """The exit code of the process; protobuf leaves a 0 out."""
    codes = [value for number, _, value in fields(message) if number == 1 and isinstance(value, int)]
    return signed(codes[-1]) if codes else 0


def environment(message: bytes) -> EnvironmentMessage:
    """Where the process ran; the record comes in parts."""
    parsed = EnvironmentMessage()
    for number, _, value in fields(message):
        if number == 3:
            parsed.started = timestamp(message_of(value))
        elif number == 12:
            parsed.host = text_of(value) or None
        elif number == 18:
            parsed.gpu_type = text_of(value) or None
        elif number == 27:
            entry = {at: text_of(part) for at, _, part in fields(message_of(value))}
            parsed.slurm[entry.get(1, "")] = entry.get(2, "")
    return parsed


def _items(message: bytes, item: int) -> Iterator[tuple[str, Any]]:
    for number, _, value in fields(message):
        if number == item:
            yield _item(message_of(value))


def _item(message: bytes) -> tuple[str, Any]:
    key, nested, content = "", list[str](), None
    for number, wire, value in fields(message):
        if number == 1:
            key = text_of(value)
        elif number == 2:
            nested.append(text_of(value))
        else:
            content = _content(number, wire, value)
    return key or ".".join(nested), content


def _content(number: int, wire: int, value: Value) -> Any:  # noqa: ANN401 - what JSON can hold
    if number in {16, 8}:
        return _json(message_of(value))
    if isinstance(value, int):
        return {4: bool(value), 5: zigzag(value)}.get(number)
    return number_of(value, wire) if number == 6 else text_of(value) if number == 7 else None


def _json(text: bytes) -> Any:  # noqa: ANN401 - what JSON can hold
    """A value's JSON; W&B writes NaN, which is not."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise WireError("a value that is not JSON") from None
