"""The forms of a report."""

from __future__ import annotations

from typing import get_args

from app.config.forms import Form

FORMS: tuple[Form, ...] = get_args(Form)
"""What a report can be written as: a page, its value, a tagged PDF, Markdown, the objectives as rows."""
