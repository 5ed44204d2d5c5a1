"""The forms of a report, as settings name them."""

from __future__ import annotations

from typing import Literal

Form = Literal["html", "json", "pdf", "md", "csv"]
