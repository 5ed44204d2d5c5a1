"""Time zones by their names of the IANA database."""

from __future__ import annotations

from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        message = f"no time zone is called {name!r}; use a name such as UTC or Europe/Berlin"
        raise ValueError(message) from error
    return name


Zone = Annotated[str, AfterValidator(_zone)]
