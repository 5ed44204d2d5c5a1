"""A bucket that fails: 503, silence, half uploads, lost answers. A copy comes through, or is run again.

`TRACKSIDE_TEST_KILLS=all` takes all moments, `make test SLOW=1` some of them.
"""

from __future__ import annotations

import itertools
import os
import random
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from queries.errors import WarehouseError
from queries.warehouse import vacuum
from tests.lab.faulty_store import Fault, FaultyStore
from tests.lab.object_store import BUCKET, ObjectStore
from tests.queries.lake.support import (
    address,
    change,
    differences,
    files_without_need,
    into_lake,
    of_lake,
    of_source,
    samples,
    tried,
)
from tests.support.warehouses import NOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MOMENTS = 10 if os.environ.get("TRACKSIDE_TEST_KILLS") == "all" else 2
"""Of each fault."""

REFUSALS = (Fault.FORBIDDEN, Fault.EXPIRED)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ObjectStore, FaultyStore]]:
    with ObjectStore(tmp_path_factory.mktemp("objects")) as made, FaultyStore(made.url) as faulty:
        yield made, faulty


@pytest.fixture
def faulty(store: tuple[ObjectStore, FaultyStore], monkeypatch: pytest.MonkeyPatch) -> FaultyStore:
    """A server that fails when it is told to; a client that waits five seconds, and tries again twice."""
    made, between = store
    for name, value in (made.environment | {"AWS_ENDPOINT_URL": between.url}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("queries.lake.storage._TIMEOUT", timedelta(seconds=5))
    monkeypatch.setattr("queries.lake.storage._RETRIES", 2)
    between.silence_s = 6.0
    between.mend()
    return between


@pytest.mark.slow
def test_faults_of_a_bucket_leave_the_lake_whole(source: Path, lake: Path, faulty: FaultyStore, tmp_path: Path) -> None:
    """One that happens once is tried again; one that lasts is reported, and the next copy goes on."""
    into_lake(source, lake, f"s3://{BUCKET}/{tmp_path.name}")
    change(source, 0)
    first = faulty.requests
    into_lake(source, lake)
    requests, chance, refused = faulty.requests - first, random.Random(24), 0
    passing = [fault for fault in Fault if fault not in REFUSALS]
    moments = [(fault, lasting) for fault in passing for lasting in (False, True)] * (MOMENTS // 2)
    before = of_source(source)
    for number, (fault, lasting) in enumerate(moments, 1):
        change(source, number)
        faulty.at(chance.randint(1, requests), fault, lasting=lasting)
        refused += "run it again" in tried(source, lake).lower()
        faulty.mend()
        state = of_lake(address(lake))
        assert state in {before, of_source(source)}, (fault, lasting)
        before = state
    assert refused > 0
    into_lake(source, lake)
    assert differences(source, lake) == []
    assert all(samples(lake)[name].equals(rows) for name, rows in samples(source).items())
    vacuum(lake, before=NOW.replace(year=2100))
    assert files_without_need(address(lake)) == set()


@pytest.mark.slow
def test_a_bucket_that_refuses_or_is_silent_names_what_to_set(
    source: Path, lake: Path, faulty: FaultyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads and whoever copies into it: neither is helped by running it again."""
    into_lake(source, lake, f"s3://{BUCKET}/{tmp_path.name}")
    change(source, 0)
    uses: list[tuple[int, Callable[[], object]]] = [
        (1, lambda: samples(lake)),
        (1, lambda: into_lake(source, lake)),
        (6, lambda: into_lake(source, lake)),
    ]
    for fault, (request, use) in itertools.product(REFUSALS, uses):
        faulty.at(request, fault, lasting=True)
        with pytest.raises(WarehouseError, match=r"40[03](?s:.*)AWS_ACCESS_KEY_ID") as refused:
            use()
        assert "run it again" not in str(refused.value).lower()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(WarehouseError, match=r"does not answer(?s:.*)AWS_ENDPOINT_URL_S3"):
        samples(lake)
