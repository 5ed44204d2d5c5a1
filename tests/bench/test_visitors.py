"""People at the explorer at once, in the short form: the long one is `python -m tests.bench.visitors`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bench.visitors import Visit, open_page, people, scenario, served
from tests.support.warehouses import from_everything

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_everything(tmp_path_factory.mktemp("visitors"))


@pytest.mark.slow
def test_people_at_once_are_answered_without_error(warehouse: Path) -> None:
    addresses = scenario(warehouse, runs=3, users=2)
    with served(warehouse) as (url, _):
        together = people(url, addresses, number=6, seconds=3.0)
    assert together.errors == []
    assert len(together.seconds) >= 6


@pytest.mark.slow
def test_a_section_that_fails_is_an_error(warehouse: Path) -> None:
    with served(warehouse) as (url, _):
        visit = Visit()
        open_page(url, "/gpu-time", "?by-lost=nothing", visit)
    assert [each for each in visit.errors if each.startswith("/gpu-time?by-lost=nothing lost:")]
