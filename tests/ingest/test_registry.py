from __future__ import annotations

from typing import get_args

import pytest

from ingest.registry import SOURCES, source
from ingest.tables import SCHEMAS, SourceName


def test_every_source_is_listed_once() -> None:
    assert [one.name for one in SOURCES] == list(get_args(SourceName))


def test_every_source_feeds_tables_that_have_a_schema() -> None:
    assert all(set(one.feeds) <= set(SCHEMAS) for one in SOURCES)


def test_an_unknown_source_lists_the_known_ones() -> None:
    with pytest.raises(KeyError, match=r"slurm\.events"):
        source("slurm.evnets")
