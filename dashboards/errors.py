"""Errors of boards."""

from __future__ import annotations

from ingest.errors import OptionError


class BoardError(OptionError):
    """A folder or file cannot be used for boards."""
