"""The objectives of the SLA report as rows, for CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.console import csv_bytes

if TYPE_CHECKING:
    from app.reports.sla.document import Document

_OWN = ("id", "metric", "unit", "kind", "direction", "target", "gpus", "value", "low", "high", "no_upper_limit", "n",
        "numerator", "denominator", "verdict", "needed", "narrowed", "excluded_gpu_seconds", "adjudications",
        "method", "definition")  # fmt: skip
_OUTCOME = ("rule", "result", "credit_least_percent", "credit_most_percent")
_BUDGET = ("unit", "allowed", "spent_low", "spent", "spent_high", "state")

_TEXTS = ("period", "id", "metric", "unit", "kind", "direction", "verdict", "needed", "narrowed",
          "method", "definition", "rule", "result", "budget_unit", "budget_state")  # fmt: skip


def objectives(document: Document) -> pl.DataFrame:
    """A row for each objective of the report and for each in a period before it (`period`, the report's own last).

    Periods before have the columns of their measurement; the others are null.
    """
    rows = []
    for each in document["objectives"]:
        own = {name: each[name] for name in _OWN}
        rows += [own | {"period": one["period"], **_measurement(one), "result": one["result"], **_NONE} for one in
                 each["trend"] if one["verdict"] is not None]  # fmt: skip
        budget = each["budget"] or dict.fromkeys(_BUDGET)
        rows.append(
            own
            | {"period": document["period"]["asked"]}
            | {name: each["outcome"][name] for name in _OUTCOME}
            | {f"budget_{name}": budget[name] for name in _BUDGET}
        )
    made = pl.DataFrame(rows, infer_schema_length=None)
    first = ["period", "id", "metric", "value", "unit", "low", "high", "verdict"]
    ordered = [*first, *(name for name in made.columns if name not in first)] if rows else []
    texts = [pl.col(name).cast(pl.String) for name in _TEXTS if name in made.columns]
    end = {name: pl.lit(document[name]) for name in ("cluster", "sha256")}
    return made.select(ordered).with_columns(texts).with_columns(**end)


_NONE = dict.fromkeys(("numerator", "denominator", "needed", "excluded_gpu_seconds", "adjudications"))


def _measurement(one: Document) -> Document:
    return {name: one[name] for name in ("value", "low", "high", "no_upper_limit", "n", "verdict")}


def render(document: Document) -> bytes:
    """The rows as CSV, none of whose cells a spreadsheet would run."""
    return csv_bytes(objectives(document))
