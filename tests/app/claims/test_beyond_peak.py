"""An MFU above 100 % supports no claim: an input of it is wrong."""

from __future__ import annotations

import polars as pl
import pytest

from app.claims import measure
from metrics.claims.claim import Claim
from metrics.claims.verdict import judge


@pytest.mark.parametrize(("mfu", "verdict"), [(0.6, "supported"), (1.5, "undetermined")])
def test_an_mfu_above_the_peak_supports_no_claim(mfu: float, verdict: str) -> None:
    claim = Claim("mfu", "mfu", "q", "r", "delivered", 0.5, "at_least", "ratio")
    row = {"value": mfu, "n": 10, "numerator": mfu, "denominator": 1.0, "ci_low": None, "ci_high": None, "note": ""}
    judged = judge(claim, measure.mfu_measured(pl.DataFrame([row]), claim, 0.0))
    assert judged.verdict == verdict
    assert ("one of its inputs is wrong" in (judged.measured.needed or "")) == (mfu > 1)
