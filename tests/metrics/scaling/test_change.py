"""A change of a recipe's speed, beyond the noise of its days."""

from __future__ import annotations

import random

import pytest

from metrics.scaling.change import change_of


def test_a_slower_half_is_named_with_its_first_day_and_its_size() -> None:
    change = change_of([700.0, 704.0, 698.0, 701.0, 665.0, 667.0, 664.0, 666.0])
    assert change is not None
    assert change.at == 4
    assert change.ratio == pytest.approx(0.95, abs=0.002)
    assert change.p < 1e-4


def test_fewer_than_three_days_on_a_side_are_no_basis() -> None:
    assert change_of([700.0, 701.0, 702.0, 600.0, 601.0]) is None
    assert change_of([]) is None


def test_days_without_noise_and_without_change_have_none() -> None:
    assert change_of([700.0] * 8) is None


def test_noise_alone_is_rarely_a_change() -> None:
    made = random.Random(7)
    named = sum(change_of([made.gauss(700, 10) for _ in range(14)]) is not None for _ in range(200))
    assert named <= 16  # 5 % of 200, and some
