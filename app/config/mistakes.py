"""Messages for mistakes in settings: the mistake, the allowed values, the table. Made from pydantic's errors."""

from __future__ import annotations

import types
import typing
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import annotated_types
from pydantic import BaseModel

from queries.near_names import near_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic.fields import FieldInfo

_WRONG: Final[Mapping[str, str]] = {
    "float_parsing": "not a number",
    "float_type": "not a number",
    "finite_number": "not a finite number",
    "int_parsing": "not a whole number",
    "int_parsing_size": "too large",
    "int_type": "not a whole number",
    "int_from_float": "not a whole number",
    "bool_parsing": "neither true nor false",
    "bool_type": "neither true nor false",
    "string_type": "not text",
    "string_pattern_mismatch": "not of the form that is allowed",
    "path_type": "not a path",
    "tuple_type": "not a list",
    "dict_type": "not a table",
    "model_type": "not a table",
    "model_attributes_type": "not a table",
    "greater_than": "too small",
    "greater_than_equal": "too small",
    "less_than": "too large",
    "less_than_equal": "too large",
    "literal_error": "no such choice",
    "date_from_datetime_parsing": "no date",
    "date_type": "no date",
    "missing": "missing",
}
"""Messages of pydantic's error types; other types are shown with pydantic's own message."""

_KINDS: Final[Mapping[Any, str]] = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "text in quotes",
    Path: "a path in quotes",
    date: "a date: 2026-10-01",
}


def problem(mistake: Mapping[str, Any], model: type[BaseModel]) -> str:
    """The mistake of a value and the allowed values; messages of our own checks have both."""
    if mistake["type"] == "value_error":
        return str(mistake["msg"]).removeprefix("Value error, ")
    wrong = _WRONG.get(mistake["type"], mistake["msg"])
    right = allowed(tuple(mistake["loc"]), model)
    if mistake["type"] == "string_pattern_mismatch":
        right = f"{right} that matches {mistake['ctx']['pattern']}"
    return f"{wrong}; allowed: {right}" if right else wrong


def table(loc: Sequence[str | int], model: type[BaseModel]) -> str:
    """The table of the file that a setting belongs to.

    >>> from app.config.settings import Config
    >>> table(("slurm", "window_days"), Config), table(("cluster",), Config)
    ('in the table [slurm]', 'at the top, above all tables')
    """
    tables: list[str] = []
    kind: Any = model
    for part in loc:
        field = _field(kind, part)
        kind = None if field is None else _kind(field.annotation)
        if not (_is_model(kind) or typing.get_origin(kind) is dict):
            break
        tables.append(str(part))
    return f"in the table [{'.'.join(tables)}]" if tables else "at the top, above all tables"


def allowed(loc: Sequence[str | int], model: type[BaseModel]) -> str | None:
    """The values that a setting takes; None if unknown.

    >>> from app.config.settings import Config
    >>> allowed(("prometheus", "interval_s"), Config), allowed(("slurm", "transport"), Config)
    ('a whole number, at least 10, at most 3600', "'commands' or 'rest'")
    """
    kind, limits = _at(loc, model)
    description = _described(kind)
    return None if description is None else ", ".join([description, *filter(None, map(_limit, limits))])


def suggestion(loc: Sequence[str | int], model: type[BaseModel]) -> str:
    """Suggestions for an unknown key: the key with a similar spelling, else all keys of its table.

    >>> from app.config.settings import Config
    >>> suggestion(("slurm", "windw_days"), Config)
    'did you mean window_days?'
    """
    *tables, name = loc
    kind, _ = _at(tables, model)
    known = [field.alias or key for key, field in kind.model_fields.items()] if _is_model(kind) else []
    close = near_names(str(name), known)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"


def _at(loc: Sequence[str | int], model: type[BaseModel]) -> tuple[Any, Sequence[Any]]:
    """The annotation at a place of the file, and its limits; None where the file has no such place."""
    kind: Any = model
    limits: Sequence[Any] = ()
    for part in loc:
        field = _field(kind, part)
        if field is not None:
            kind, limits = _kind(field.annotation), field.metadata
            continue
        inside = typing.get_args(kind)
        if typing.get_origin(kind) not in {tuple, dict} or not inside:
            return None, ()
        kind, limits = _bare(inside[0] if typing.get_origin(kind) is tuple else inside[-1])
    return kind, limits


def _described(kind: Any) -> str | None:
    if typing.get_origin(kind) is Literal:
        return " or ".join(map(repr, typing.get_args(kind)))
    if typing.get_origin(kind) is tuple and _is_table(_bare(typing.get_args(kind)[0])[0]):
        return "tables, [[NAME]] for each of them"
    if typing.get_origin(kind) is tuple:
        return 'a list of texts in quotes: ["...", "..."]'
    if _is_model(kind):
        return "a table, [NAME] with its settings below it"
    if typing.get_origin(kind) is dict:
        return "a table of names and values"
    return _KINDS.get(kind)


def _limit(limit: Any) -> str | None:
    for kind, relation, name in (
        (annotated_types.Gt, "above", "gt"),
        (annotated_types.Ge, "at least", "ge"),
        (annotated_types.Lt, "below", "lt"),
        (annotated_types.Le, "at most", "le"),
    ):
        if isinstance(limit, kind):
            return f"{relation} {getattr(limit, name):g}"
    return None


def _field(kind: Any, part: str | int) -> FieldInfo | None:
    return kind.model_fields.get(part) if _is_model(kind) else None


def _kind(annotation: Any) -> Any:
    """An annotation without the None that it allows."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        annotation = next(each for each in typing.get_args(annotation) if each is not type(None))
    return _bare(annotation)[0]


def _bare(annotation: Any) -> tuple[Any, Sequence[Any]]:
    """An annotation and its metadata."""
    if typing.get_origin(annotation) is typing.Annotated:
        inside, *metadata = typing.get_args(annotation)
        return inside, metadata
    return annotation, ()


def _is_table(kind: Any) -> bool:
    return typing.get_origin(kind) is dict or _is_model(kind)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
