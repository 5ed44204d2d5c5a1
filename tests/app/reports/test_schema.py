"""The published schema of the report's JSON form: every report keeps to it, and no key is missing from it."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from app.claims.file import read_contract
from app.docgen import ROOT
from app.reports.sla import document as sla
from app.reports.sla.model import schema
from app.times import parse_period
from app.window import Window
from queries.warehouse import open_reader
from tests.app.reports.test_forms import CALENDAR, CONTRACT
from tests.support.command import trackside
from tests.support.warehouses import from_accounting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WEEK = "2026-10-06..2026-10-10"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return from_accounting(tmp_path_factory.mktemp("schema"), jobs=300)


def made(warehouse: Path, period: str, claims: Path | None, earlier: dict[str, Any] | None = None) -> dict[str, Any]:
    contract = read_contract(claims)
    with open_reader(warehouse) as reader:
        window = Window("tiny", *parse_period(period, contract.time_zone))
        document = sla.document(reader, window, period, contract, sla.origin_of_claims(claims), earlier)
    return dict(json.loads(sla.encoded(sla.sealed(document))))


def contract_in(folder: Path) -> Path:
    (folder / "m.ics").write_text(CALENDAR.format("1007"))
    claims = folder / "sla.toml"
    claims.write_text(CONTRACT)
    return claims


def mistakes(report: dict[str, Any]) -> list[str]:
    validator = jsonschema.Draft202012Validator(schema())
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(report)]


@pytest.mark.slow
@pytest.mark.parametrize("period", ["2026-10", WEEK, "2026-W41", "2026-10-06T10:00..2026-10-06T10:05"])
def test_report_without_contract_keeps_to_the_schema(warehouse: Path, period: str) -> None:
    assert mistakes(made(warehouse, period, None)) == []


@pytest.mark.slow
def test_report_with_contract_and_earlier_keeps_to_it(warehouse: Path, tmp_path: Path) -> None:
    claims = contract_in(tmp_path)
    before = made(warehouse, "2026-10-08", claims)
    before["objectives"][0]["value"] = 0.5
    now = made(warehouse, "2026-10-09", claims, sla.sealed(before))
    assert now["corrected"]["changes"]
    assert now["contract"]["calendars"]
    assert mistakes(now) == []


@pytest.mark.slow
def test_schema_refuses_any_further_key_and_any_lack(warehouse: Path, tmp_path: Path) -> None:
    report = made(warehouse, WEEK, contract_in(tmp_path))
    report["corrected"] = None
    checked = 0
    for path in parts(report):
        for change in ("more", "less"):
            changed = copy.deepcopy(report)
            part = at(changed, path)
            part.update({"zzz": 1}) if change == "more" else part.pop(next(iter(part)))
            assert mistakes(changed), (path, change)
            checked += 1
    assert checked > 60


FREE = {"constants", "evidence", "by_cause", "interruptions_by_class"}
"""Objects whose keys are data; their contents are not looked into."""


def parts(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of the objects whose keys are declared: the first of each list."""
    if isinstance(value, dict):
        if path != ("daily", "metrics"):
            yield path
        for key, item in value.items():
            if key not in FREE:
                yield from parts(item, (*path, key))
    elif isinstance(value, list) and value and path != ("daily", "gpu_seconds"):
        yield from parts(value[0], (*path, 0))


def at(value: Any, path: tuple[str | int, ...]) -> dict[str, Any]:
    for key in path:
        value = value[key]
    found: dict[str, Any] = value
    return found


def test_schema_is_valid_and_the_file_is_current() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    file = ROOT / "app" / "reports" / "sla" / "report.schema.json"
    assert json.loads(file.read_text()) == schema()
    done = trackside("report", "schema")
    assert (done.returncode, json.loads(done.stdout)) == (0, schema())


def test_every_object_of_the_schema_is_closed() -> None:
    definitions = {"Report": schema(), **schema()["$defs"]}
    for name, one in definitions.items():
        assert one["additionalProperties"] is False, name
        assert sorted(one["required"]) == sorted(one["properties"]), name
