"""The tests of queries/ make their warehouses as the product does, schema step by schema step."""

from collections.abc import Iterator

import pytest

from tests.support.warehouses import from_scratch


@pytest.fixture(scope="package", autouse=True)
def _from_scratch() -> Iterator[None]:
    with from_scratch():
        yield
