from __future__ import annotations

from pathlib import Path

import pytest

import ingest
from ingest.registry import FOLDERS, SOURCES, source
from queries import sql_files


def test_every_source_is_listed_once_and_named_after_its_folder() -> None:
    names = [one.name for one in SOURCES]
    assert len(set(names)) == len(names)
    assert all(one.name.partition(".")[0] == folder.name for folder in FOLDERS for one in folder.sources)


def test_folders_are_listed_in_the_order_of_their_positions() -> None:
    assert [folder.position for folder in FOLDERS] == sorted(folder.position for folder in FOLDERS)
    assert FOLDERS[0].name == "slurm"
    assert {folder.name for folder in FOLDERS} == {
        file.parent.name for file in Path(ingest.__file__).parent.glob("*/sources.py")
    }


def test_counted_tables_are_fed_ones() -> None:
    assert all(set(one.counted or ()) <= set(one.feeds) for one in SOURCES)


def test_every_source_feeds_tables_that_have_a_schema() -> None:
    assert all(set(one.feeds) <= set(sql_files.tables()) for one in SOURCES)


def test_an_unknown_source_lists_the_known_ones() -> None:
    with pytest.raises(KeyError, match=r"slurm\.events"):
        source("slurm.evnets")
