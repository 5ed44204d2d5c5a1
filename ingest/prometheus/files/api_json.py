r"""Answers of a server's HTTP API that were saved as files (`curl '.../api/v1/query?...' > FILE`), as OpenMetrics.

    {"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"up"},"values":[[1,"1"]]}]}}
    {"metric":{"__name__":"up"},"values":[1],"timestamps":[1000]}

The first is an answer of Prometheus, Thanos, Mimir or VictoriaMetrics to a query, the second a line of VictoriaMetrics'
/api/v1/export. A file may hold several. OpenMetrics has a line for each reading, series by series.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from ingest.errors import InputError, TruncatedInputError, shorten
from ingest.files.json_texts import BrokenTextError, json_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BEGINS: Final = re.compile(rb'\s*\{\s*"(?:status|data|metric)"\s*:')
"""A series in OpenMetrics may begin with a brace and a name in quotes, too; no colon comes behind that."""

_PLAIN_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")

_LINES: Final = 50_000
"""Lines that a chunk has at least, but for the last."""

_NONE: Final = "the answer has no series: no stored series matches the query in that time"
_NAMELESS: Final = (
    "its series have no name, as results of an expression do not: query the metric itself, such as "
    "query=DCGM_FI_DEV_GPU_UTIL[1d]"
)


class _ApiSeries(msgspec.Struct):
    """A series: its labels, and readings as pairs (`values`, `value`), or VictoriaMetrics' two lists."""

    metric: dict[str, str]
    values: msgspec.Raw = msgspec.Raw(b"[]")
    value: msgspec.Raw = msgspec.Raw(b"")
    timestamps: list[float] | None = None


class _ApiData(msgspec.Struct):
    resultType: str = ""  # noqa: N815 - the API's name
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _ApiResponse(msgspec.Struct):
    """An answer of the API, or a line of an export, which is a series."""

    status: str = "success"
    error: str = ""
    data: _ApiData | None = None
    metric: dict[str, str] | None = None
    values: msgspec.Raw = msgspec.Raw(b"[]")
    timestamps: list[float] | None = None


def is_api_json(head: bytes) -> bool:
    """Whether a file that begins like this is an answer of the HTTP API.

    >>> is_api_json(b'{"status":"success","data":{'), is_api_json(b'{"metric":{'), is_api_json(b'{"up", job="a"} 1 1')
    (True, True, False)
    """
    return _BEGINS.match(head) is not None


def as_openmetrics(data: bytes, *, origin: str) -> Iterator[bytes]:
    """The readings of answers as OpenMetrics text, in chunks of whole series.

    Args:
        data: the file.
        origin: its name.

    Raises:
        TruncatedInputError: it ends within an answer.
        InputError: it is damaged, the server answered with an error, or no series has a name.
    """
    n_named = n_nameless = 0
    chunk: list[str] = []
    for answer in _answers(data, origin):
        for series in _series_of(answer, origin):
            if "__name__" not in series.metric:
                n_nameless += 1
                continue
            n_named += 1
            chunk += _lines_of(series, origin)
            if len(chunk) >= _LINES:
                yield "".join(chunk).encode()
                chunk = []
    if not n_named:
        raise InputError(f"{origin}: {_NAMELESS if n_nameless else _NONE}")
    yield "".join(chunk).encode()


def _answers(data: bytes, origin: str) -> Iterable[_ApiResponse]:
    """The answers of a file: one, or lines of an export, or several behind each other."""
    try:
        return [_decoded(data, origin)]
    except InputError:
        return _concatenated_responses(data, origin)


def _concatenated_responses(data: bytes, origin: str) -> Iterator[_ApiResponse]:
    try:
        for _, text in json_texts(data.decode("utf-8", "replace")):
            yield _decoded(text.encode(), origin)
    except BrokenTextError as error:
        raise TruncatedInputError(
            f"{origin}: the JSON ends or breaks here: {shorten(str(error))}\nCopy or request the file again"
        ) from None


def _decoded(document: bytes, origin: str) -> _ApiResponse:
    try:
        return msgspec.json.decode(document, type=_ApiResponse)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _no_answer(origin, error) from None


def _series_of(answer: _ApiResponse, origin: str) -> list[_ApiSeries]:
    if answer.metric is not None:
        return [_ApiSeries(answer.metric, answer.values, timestamps=answer.timestamps)]
    if answer.status != "success" or answer.data is None:
        raise InputError(f"{origin}: the server answered with an error: {shorten(answer.error or 'without data')}")
    if answer.data.resultType not in {"matrix", "vector"}:
        kind = answer.data.resultType or "something else"
        raise InputError(f"{origin}: the answer to a query of series is a matrix or a vector, and this is {kind}")
    try:
        return msgspec.json.decode(answer.data.result, type=list[_ApiSeries])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _no_answer(origin, error) from None


def _no_answer(origin: str, error: Exception) -> InputError:
    return InputError(f"{origin}: no answer of Prometheus' HTTP API: {shorten(str(error))}")


def _lines_of(series: _ApiSeries, origin: str) -> list[str]:
    """The readings of a series, a line each."""
    head = _head(series.metric)
    try:
        return [f"{head} {value} {at}\n" for at, value in _readings(series)]
    except (msgspec.DecodeError, ValueError) as error:
        raise InputError(f"{origin}: readings of {shorten(head)}: {shorten(str(error))}") from None


def _readings(series: _ApiSeries) -> Iterable[tuple[float, str | float]]:
    if series.timestamps is not None:  # milliseconds, with numbers; null is NaN
        values = msgspec.json.decode(series.values, type=list[float | str | None])
        return zip(
            (at / 1000 for at in series.timestamps),
            ("NaN" if value is None else value for value in values),
            strict=True,
        )
    pairs = msgspec.json.decode(series.values, type=list[tuple[float, str]])
    return [*pairs, msgspec.json.decode(series.value, type=tuple[float, str])] if bytes(series.value) else pairs


def _head(labels: dict[str, str]) -> str:
    r"""A series as text writes it.

    >>> _head({"__name__": "up", "job": 'a"b'}), _head({"__name__": "node.load", "instance": "n1"})
    ('up{job="a\\"b"}', '{"node.load",instance="n1"}')
    """
    name = labels["__name__"]
    plain = _PLAIN_NAME.fullmatch(name) is not None
    items = [] if plain else [_quoted(name)]
    items += [
        f"{label if _PLAIN_NAME.fullmatch(label) else _quoted(label)}={_quoted(value)}"
        for label, value in labels.items()
        if label != "__name__"
    ]
    return f"{name if plain else ''}{{{','.join(items)}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
