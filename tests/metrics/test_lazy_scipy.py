"""Functions of scipy that are imported without the package around them."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import special as whole

from metrics import lazy_scipy

if TYPE_CHECKING:
    from types import ModuleType

CALLED = {
    "bdtr": 3, "betainc": 3, "betaincinv": 3, "chdtrc": 2, "chdtri": 2, "gammainc": 2, "gammaincinv": 2, "gammaln": 1,
    "lambertw": 1, "ndtri": 1, "stdtr": 2, "stdtrit": 2, "xlog1py": 2, "xlogy": 2,
}  # fmt: skip
"""Functions that metrics call, and how many numbers each takes."""

ALONE = """
import sys
from metrics.lazy_scipy import special
assert special.{name}(*{numbers}) is not None
assert "scipy.special" not in sys.modules
assert not [name for name in sys.modules if name.startswith(("scipy._lib._array_api", "numpy.f2py"))]
import scipy.special
assert scipy.special.{name}(*{numbers}) == special.{name}(*{numbers})
assert special.logsumexp([0.0, 0.0]) == scipy.special.logsumexp([0.0, 0.0])
"""


def numbers_of(name: str) -> list[float]:
    """Numbers for which the function has a value."""
    return {"bdtr": [2, 5, 0.3], "betainc": [2.0, 3.0, 0.4], "betaincinv": [2.0, 3.0, 0.4]}.get(
        name, [0.7, 0.3][: CALLED[name]]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gammaincinv", "lambertw"])
def test_special_is_loaded_without_its_package(name: str) -> None:
    program = ALONE.format(name=name, numbers=numbers_of(name))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ...]:
    """The compiled modules as a process has them that never imported the package."""
    monkeypatch.delitem(sys.modules, "scipy.special")
    return lazy_scipy.special_modules()


@pytest.mark.parametrize("name", CALLED)
def test_special_equals_scipy(without_package: tuple[ModuleType, ...], name: str) -> None:
    function = next(getattr(module, name) for module in without_package if hasattr(module, name))
    for low, high in pairwise(np.linspace(0.05, 0.95, 40)):
        numbers = [*numbers_of(name)[:-1], np.array([low, high])]
        assert np.array_equal(function(*numbers), getattr(whole, name)(*numbers))


def test_special_falls_back_to_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_scipy, "special_modules", tuple)
    assert lazy_scipy.special.gammaln(5.0) == whole.gammaln(5.0)
