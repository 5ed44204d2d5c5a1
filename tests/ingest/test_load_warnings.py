"""Warnings of loads are records; their messages are made of code, count and detail by one formatter."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.config import settings as config
from ingest.load_warnings import MESSAGES, OF_EARLIER_VERSIONS, LoadWarning, from_records, messages, summed
from ingest.slurm.load_files import Options, ingest_files
from ingest.store.request import from_file
from queries.warehouse import open_reader, open_writer
from tests.support.slurm.fake_slurm import BORN, FakeSlurm, Job, days, ingest, table
from tests.support.slurm.parsing import text

if TYPE_CHECKING:
    from queries.warehouse import Reader

ROOT = Path(__file__).parents[2]


def used_codes() -> set[str]:
    """The codes that the loaders give; `code` is a variable in two places."""
    code = "".join(path.read_text() for folder in ("ingest", "app") for path in (ROOT / folder).rglob("*.py"))
    direct = re.findall(r'LoadWarning\(\s*"(\w+)"', code)
    counted = re.findall(r'_counted\(.*, "\w+", "(\w+)"\)', code)
    chosen = re.findall(r'code = "(\w+)" if of_sacct else "(\w+)"', code)
    return {*direct, *counted, *(each for pair in chosen for each in pair)}


def test_each_code_has_a_message_and_each_message_a_code() -> None:
    assert used_codes() == MESSAGES.keys() - OF_EARLIER_VERSIONS


@pytest.mark.parametrize("code", MESSAGES)
def test_stored_warning_gives_its_message_again(code: str) -> None:
    warning = LoadWarning(code, 1234, "a {name}")
    assert from_records([warning.record()]) == [warning]
    assert "a {name}" in warning.message or "{detail}" not in MESSAGES[code]
    assert re.search("1,?234", warning.message) or "{count" not in MESSAGES[code]


def test_copy_of_a_warning_is_the_same_record() -> None:
    warning = LoadWarning("values_unread", 2, "reqmem")
    for made in (copy.deepcopy(warning), pickle.loads(pickle.dumps(warning))):
        assert made == warning
        assert made.message == warning.message


def test_unknown_code_shows_its_detail() -> None:
    newer = from_records([{"code": "of_a_newer_version", "count": 3, "detail": "something"}])
    assert messages(newer) == ["something"]
    assert from_records(None) == []


def test_summed_adds_counts_of_one_code_and_detail_only() -> None:
    given = [
        LoadWarning("values_unread", 2, "reqmem"),
        LoadWarning("values_unread", 3, "elapsed"),
        LoadWarning("gpu_parts", 5),
        LoadWarning("values_unread", 4, "reqmem"),
        LoadWarning("other_clusters", None, "a: b"),
        LoadWarning("other_clusters", None, "a: b"),
    ]
    assert [warning.record() for warning in summed(given)] == [
        {"code": "values_unread", "count": 6, "detail": "reqmem"},
        {"code": "values_unread", "count": 3, "detail": "elapsed"},
        {"code": "gpu_parts", "count": 5, "detail": ""},
        {"code": "other_clusters", "count": None, "detail": "a: b"},
    ]


def kept(reader: Reader) -> list[dict[str, object]]:
    """The warnings of all loads."""
    return [each for warnings in reader.table("loads")["warnings"].to_list() for each in warnings]


def test_load_keeps_code_count_and_detail_of_its_warnings(tmp_path: Path) -> None:
    dump = tmp_path / "sacct.txt"
    dump.write_bytes(text({"State": "SLEEPY"}))
    now = BORN + days(10_000)
    with open_writer(tmp_path / "w", verb="test", now=now) as writer:
        options = Options(cluster="c1", timezone="UTC")
        [report] = ingest_files(writer, config.Config(), [str(dump)], options, now=now, progress=lambda *_: None)
    with open_reader(tmp_path / "w") as reader:
        assert {"code": "state_unknown", "count": 1, "detail": "SLEEPY"} in kept(reader)
        assert report.parsed is not None
        assert from_records(kept(reader)) == report.parsed.warnings
        assert reader.table("loads")["origin"].to_list() == [from_file(str(dump)).origin]


@pytest.mark.slow
def test_warnings_of_before_are_not_repeated(tmp_path: Path) -> None:
    slurm = FakeSlurm([Job(1, BORN, BORN)], BORN + days(40))
    slurm.uid, slurm.private_data = 1000, "jobs"
    first, second = (ingest(tmp_path, slurm).warnings for _ in range(2))
    assert LoadWarning("others_jobs_hidden") in first
    assert LoadWarning("others_jobs_hidden") not in second
    stored = table(tmp_path, "loads").filter(source="slurm.accounting")["warnings"].explode().struct.field("code")
    assert set(stored) == {"others_jobs_hidden"}
