"""The tests of a warehouse's own files make them as the product does, schema step by schema step; others copy."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import pytest

from tests.support.warehouses import from_scratch

FROM_SCRATCH: Final = frozenset({"test_half_copied", "test_permissions", "test_warehouse"})
"""Modules about how a warehouse begins, what its files are, and what becomes of them."""


@pytest.fixture(scope="module", autouse=True)
def _from_scratch(request: pytest.FixtureRequest) -> Iterator[None]:
    with from_scratch() if Path(request.module.__file__).stem in FROM_SCRATCH else nullcontext():
        yield
