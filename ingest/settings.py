"""The base of all sections of the configuration: frozen, without unknown keys or too large numbers."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

_LONGEST: Final = {"days": 36_525.0, "hours": 876_600.0, "minutes": 52_596_000.0, "s": 3.2e9, "seconds": 3.2e9}
"""Largest lengths of time, by the suffix of their names: a century. Longer ones cannot be added to a date."""

_LARGEST = 1e12
"""Largest value of other numbers."""


def no_boolean(value: object) -> object:
    """A value that is not true or false: `true` would be taken for 1.

    Raises:
        ValueError: it is true or false.
    """
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a number")  # noqa: TRY004 - pydantic collects ValueErrors
    return value


def _is_number(annotation: object) -> bool:
    """Whether a setting takes a number, and neither true nor false.

    >>> _is_number(int | None), _is_number(bool), _is_number(str)
    (True, False, False)
    """
    kinds = {annotation, *typing.get_args(annotation)}
    return not kinds.isdisjoint({int, float}) and bool not in kinds


class SettingsSection(BaseModel):
    """A section of the configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_boolean(cls, value: object, info: ValidationInfo) -> object:
        return no_boolean(value) if _is_number(cls.model_fields[str(info.field_name)].annotation) else value

    @field_validator("*")
    @classmethod
    def _is_usable(cls, value: object, info: ValidationInfo) -> object:
        most = _LONGEST.get(str(info.field_name).rpartition("_")[2], _LARGEST)
        if isinstance(value, int | float) and value > most:
            raise ValueError(f"too large; allowed: at most {most:g}")
        inside = value if isinstance(value, tuple) else (value,)
        if any("\0" in str(each) for each in inside if isinstance(each, str | Path)):
            raise ValueError("it holds a NUL, which no name, path or address can")
        return value
