"""What replaces functions of scipy equals them in every bit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import optimize, special

from metrics.numeric import log_sum_exp, root

if TYPE_CHECKING:
    from collections.abc import Callable

finite = st.floats(-1e4, 1e4)


@given(st.lists(finite, min_size=1, max_size=60), st.integers(0, 5))
def test_log_sum_exp_equals_scipy(values: list[float], n_equal: int) -> None:
    row = np.array(values + [max(values)] * n_equal)
    assert log_sum_exp(row) == float(special.logsumexp(row))


def cubic(a: float, b: float, c: float) -> Callable[[float], float]:
    return lambda x: a * (x - c) ** 3 + b * (x - c) + math.sin(x - c)


@given(st.floats(0.01, 50), st.floats(1.01, 50), st.floats(-40, 40), st.floats(-50, 50), st.floats(-50, 50))
def test_root_equals_scipy(a: float, b: float, c: float, low: float, high: float) -> None:
    function = cubic(a, b, c)
    assume(function(low) * function(high) < 0)
    assert root(function, low, high) == optimize.brentq(function, low, high)


@given(st.floats(1e-6, 1e6), st.floats(0.1, 40))
def test_root_equals_scipy_where_the_function_is_steep(scale: float, at: float) -> None:
    def steep(x: float) -> float:
        return math.expm1(scale * (x - at)) if scale * (x - at) < 700 else math.inf

    assume(math.isfinite(steep(50.0)))
    assert root(steep, -50.0, 50.0) == optimize.brentq(steep, -50.0, 50.0)


def test_root_at_an_end_is_that_end() -> None:
    assert root(lambda x: x - 3, 3.0, 9.0) == 3.0
    assert root(lambda x: x - 9, 3.0, 9.0) == 9.0


def test_root_refuses_ends_of_the_same_sign() -> None:
    with pytest.raises(ValueError, match="same sign"):
        root(lambda x: x * x + 1, -1.0, 1.0)
