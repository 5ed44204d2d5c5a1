"""MFU where no step is logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.results import mfu
from metrics import frames
from metrics.mfu.flops import MEASURES

if TYPE_CHECKING:
    import pytest


def test_no_step_has_no_mfu_by_any_convention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a cluster without logs nothing is computed: `compute` asks it of seven windows, by every convention."""
    monkeypatch.setattr(mfu, "step_mfu", None)
    assert list(mfu.measured_steps(frames.empty(frames.STEPS), MEASURES)) == []
