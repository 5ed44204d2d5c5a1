"""The words of the ledger as types of columns: numbers with names."""

from __future__ import annotations

import polars as pl

from metrics.categories import CATEGORIES, EVIDENCE_KINDS

STATE = pl.Enum(["unavailable", "idle", "allocated"])
CATEGORY = pl.Enum(CATEGORIES)
EVIDENCE = pl.Enum(EVIDENCE_KINDS)


def state(name: str) -> pl.Expr:
    """A state as a column of the type `STATE`."""
    return pl.lit(name, dtype=STATE)


def category(name: str) -> pl.Expr:
    """A category as a column of the type `CATEGORY`."""
    return pl.lit(name, dtype=CATEGORY)


def evidence(name: str) -> pl.Expr:
    """A kind of evidence as a column of the type `EVIDENCE`."""
    return pl.lit(name, dtype=EVIDENCE)
