"""The one writer of JSON: every number in it is finite.

JSON has no NaN and no infinity; Python's own writer prints them all the same, and a reader that keeps to the standard
then refuses the whole document. A number here that is not finite is a fault of whatever computed it: it is written as
null, which everywhere means unknown, and the fault is logged with the places, so that one number costs no document.
"""

from __future__ import annotations

import json
import logging
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from ingest.counted import counted

_LOG = logging.getLogger("trackside.json")

_SHOWN = 3
"""Places that the log names."""


def as_json(value: object, *, indent: int | None = None, sort_keys: bool = False, compact: bool = False) -> str:
    """A value as JSON text. Times become ISO 8601 in UTC, decimal numbers whole or broken ones, all else its text.

    Args:
        value: dictionaries, lists, texts, numbers, times.
        indent: blanks a level; None is one line.
        sort_keys: whether keys are sorted.
        compact: without blanks between items.

    >>> as_json({"ratio": 0.5, "names": ["ä"]})
    '{"ratio": 0.5, "names": ["ä"]}'
    """
    separators = (",", ":") if compact else None
    options: dict[str, Any] = {"indent": indent, "sort_keys": sort_keys, "separators": separators}
    try:
        return json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False, **options)
    except ValueError:
        return json.dumps(finite(value), default=_plain, ensure_ascii=False, allow_nan=False, **options)


def finite(value: object) -> Any:  # noqa: ANN401 - what went in
    """The same value with null in place of every number that is not finite; a fault is logged if there are any.

    >>> finite({"a": [1.0, None, "NaN"]})
    {'a': [1.0, None, 'NaN']}
    """
    places: list[str] = []
    cleaned = _finite(value, "$", places)
    if places:
        shown = ", ".join(places[:_SHOWN]) + (", ..." if len(places) > _SHOWN else "")
        _LOG.error("%s not finite, written as null: %s", counted(len(places), "number"), shown)
    return cleaned


def _finite(value: object, path: str, places: list[str]) -> object:
    if isinstance(value, dict):
        return {key: _finite(item, f"{path}.{key}", places) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item, f"{path}[{number}]", places) for number, item in enumerate(value)]
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        places.append(path)
        return None
    return value


def _plain(value: object) -> object:
    """Of what JSON does not have."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        if not value.is_finite():
            return float(value)  # which the writer refuses: it goes the way of every other
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)
