"""Differences of two reports: all of them, named by what they are of, and none where nothing changed."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from app.reports.differences import KEYS, differences, reasons
from app.reports.sla.document import encoded, sealed
from app.reports.sla.model import schema
from tests.app.reports.test_schema import WEEK, contract_in, made
from tests.support.command import trackside
from tests.support.slurm.dumps import rows_of, tiny, with_rows
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("differences"), jobs=300)


@pytest.fixture(scope="module")
def report(warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return made(warehouse, WEEK, contract_in(tmp_path_factory.mktemp("claims")))


def changed(report: dict[str, Any]) -> dict[str, Any]:
    """A report in which one thing of each kind is another."""
    other = copy.deepcopy(report)
    other["objectives"][0]["value"] = (other["objectives"][0]["value"] or 0.0) + 0.125
    other["objectives"][0]["trend"].reverse()
    other["gpu_time"]["categories"].pop(0)
    other["daily"]["gpu_seconds"][1]["productive"] = "-1"
    other["adjudications"].append(
        {"id": "x", "author": "a", "made_at": "2026-10-09T00:00:00Z", "says": "s", "reason": "r"}
    )
    other["data"]["version"] += 1
    return other


def test_differences_are_named_by_what_they_are_of(report: dict[str, Any]) -> None:
    found = differences(report, changed(report))
    category, objective = report["gpu_time"]["categories"][0]["category"], report["objectives"][0]["id"]
    day = report["daily"]["days"][1]
    rows = {row[:3]: row[3:] for row in found.rows()}
    assert rows.keys() == {
        ("data", "", "version"),
        ("objectives", objective, "value"),
        ("gpu_time", f"categories {category}", ""),
        ("daily", f"gpu_seconds {day}", "productive"),
        ("adjudications", "x", ""),
    }
    assert rows["objectives", objective, "value"][2] == pytest.approx(0.125)
    assert rows["gpu_time", f"categories {category}", ""] == ("there", None, None)
    assert rows["adjudications", "x", ""] == (None, "there", None)
    assert reasons(found) == ["data", "adjudications"]


def test_differences_of_a_report_to_itself_are_none(report: dict[str, Any]) -> None:
    assert differences(report, copy.deepcopy(report)).is_empty()
    again = copy.deepcopy(report)
    again["objectives"][0]["target"] *= 1 + 1e-14  # a sum in another order
    assert differences(report, again).is_empty()


def test_every_list_of_objects_has_what_names_them() -> None:
    objects = {"Report": schema(), **schema()["$defs"]}
    lists = {
        (name, key): each["items"]["$ref"].rpartition("/")[2]
        for name, one in objects.items()
        for key, each in one["properties"].items()
        if "$ref" in each.get("items", {})
    }
    assert {key for _, key in lists} | {"metrics"} == KEYS.keys()
    for (name, key), of in lists.items():
        assert set(KEYS[key]) <= objects[of]["properties"].keys(), (name, key)


@pytest.mark.slow
def test_one_changed_attempt_changes_its_sections_alone(tmp_path: Path) -> None:
    """A node failure that was none: numbers of failures, time and incidents change, and nothing of the contract."""
    rows = rows_of(tiny(300).accounting)
    failed = [number for number, row in enumerate(rows) if "|NODE_FAIL|" in row]
    at, reports = failed[len(failed) // 2], []
    for state in ("NODE_FAIL", "COMPLETED"):
        (folder := tmp_path / state).mkdir()
        rows[at] = rows[at].replace("|NODE_FAIL|", f"|{state}|")
        files = replace(tiny(300), accounting=with_rows(rows)).write(folder)
        where = ("--warehouse", str(folder / "w"))
        done = trackside("ingest", "slurm", *files, "--timezone", "UTC", *where)
        assert done.returncode == 0, done.stderr
        assert trackside("compute", *where).returncode == 0
        reports.append(made(folder / "w", "2026-10", None))
    sections = set(differences(*reports)["section"])
    assert {"incidents", "failure_rates"} <= sections
    assert not sections & {
        "period",
        "covered",
        "claims",
        "contract",
        "constants",
        "definitions",
        "exclusions",
        "reproduce",
    }


@pytest.mark.slow
def test_diff_compares_files_and_digests(warehouse: Path, report: dict[str, Any], tmp_path: Path) -> None:
    where = ("--warehouse", str(warehouse))
    other = sealed(changed(report))
    (tmp_path / "b.json").write_bytes(encoded(other))
    done = trackside("report", "sla", "--period", WEEK, "-o", str(tmp_path / "a.json"), *where)
    assert done.returncode == 0, done.stderr
    digest = json.loads((tmp_path / "a.json").read_bytes())["sha256"]
    by_digest = trackside("reports", "diff", digest[:10], str(tmp_path / "b.json"), "--format", "json", *where)
    by_file = trackside(
        "reports", "diff", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--format", "json", *where
    )
    assert by_digest.stdout == by_file.stdout
    some = trackside(
        "reports", "diff", digest[:10], str(tmp_path / "b.json"), "--section", "data", "--format", "json", *where
    )
    assert {row["section"] for row in json.loads(some.stdout)} == {"data"}
    unknown = trackside("reports", "diff", digest[:10], digest[:10], "--section", "zzz", *where)
    assert (unknown.returncode, "a report has " in unknown.stderr) == (2, True)
    nothing = trackside("reports", "diff", digest[:10], digest[:10], *where)
    assert "The reports are the same." in nothing.stderr
    assert "no report in JSON has such a digest" in trackside("reports", "diff", "0000", digest, *where).stderr
