"""Answers of the HTTP API that were saved as files: what OpenMetrics of the same readings gives, or a reason."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.settings import Config
from ingest.errors import InputError
from ingest.prometheus import load_files
from ingest.prometheus.files.api_json import _head, as_openmetrics, is_api_json
from ingest.prometheus.files.openmetrics_parser import labels_of
from ingest.prometheus.target import TelemetryRequest
from queries.warehouse import open_writer
from tests.support.command import assert_same
from tests.support.telemetry.dcgm_files import NOW, T, lines, quiet

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.store.report import LoadReport

UP = {"__name__": "up", "job": "a"}
LATER = [[2.5, "NaN"]]


def answer(*series: object, kind: str = "matrix") -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": series}}).encode()


def export(*series: object) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in series)


def text(data: bytes) -> list[str]:
    return b"".join(as_openmetrics(data, origin="a.json")).decode().splitlines()


def load(warehouse: Path, *files: Path) -> list[LoadReport]:
    with open_writer(warehouse, verb="test", now=NOW) as writer:
        names = [str(each) for each in files]
        return load_files.ingest_files(writer, Config(), names, TelemetryRequest(cluster="c"), now=NOW, progress=quiet)


@pytest.mark.parametrize(
    "data",
    [
        answer({"metric": UP, "values": [[1, "1"], [2.5, "NaN"]]}),
        answer({"metric": UP, "value": [1, "1"]}, kind="vector") + b"\n" + answer({"metric": UP, "values": LATER}),
        export({"metric": UP, "values": [1, None], "timestamps": [1000, 2500]}),
        b"".join(export({"metric": UP, "values": [n], "timestamps": [at]}) for n, at in ((1, 1000), ("NaN", 2500))),
    ],
    ids=["matrix", "vector and matrix", "export", "lines of an export"],
)
def test_each_kind_of_answer_gives_its_readings(data: bytes) -> None:
    assert is_api_json(data)
    numbers = [line.rpartition("} ")[2].split() for line in text(data)]
    assert [(line.partition(" ")[0]) for line in text(data)] == ['up{job="a"}'] * 2
    assert [(float(at), value) for value, at in numbers] in ([(1, "1"), (2.5, "NaN")], [(1, "1.0"), (2.5, "NaN")])


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=4), st.text(min_size=1))
def test_any_labels_come_back_from_the_text(labels: dict[str, str], name: str) -> None:
    labels = {"__name__": name, **labels}
    assert labels_of(_head(labels)) == labels


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"status":"error","errorType":"bad_data","error":"invalid parameter"}', "answered with an error: invalid"),
        (answer(kind="scalar"), "a matrix or a vector, and this is scalar"),
        (answer(), "has no series"),
        (answer({"metric": {"gpu": "0"}, "values": [[1, "1"]]}), "have no name"),
        (answer({"metric": UP, "values": [[1, "1"]]})[:-20], "ends or breaks here"),
        (answer({"metric": UP, "values": [["x", "1"]]}), "readings of up"),
        (export({"metric": UP, "values": [1, 2], "timestamps": [1000]}), "readings of up"),
        (answer({"metric": 7}), "no answer of Prometheus' HTTP API"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        text(data)


def as_answer(rows: list[str]) -> bytes:
    """Lines of OpenMetrics as a server would answer them."""
    series: dict[str, list[list[object]]] = {}
    for row in rows:
        head, _, reading = row.partition("} ")
        value, at = reading.split()
        series.setdefault(head + "}", []).append([float(at), value])
    return answer(*({"metric": labels_of(head), "values": values} for head, values in series.items()))


@pytest.mark.slow
def test_an_answer_is_the_text_of_its_readings(tmp_path: Path) -> None:
    rows = lines(1800, gpus=2)
    (tmp_path / "a.om").write_text("\n".join([*rows, "# EOF\n"]))
    plain = as_answer(rows)
    forms = {"plain": plain, "packed": gzip.compress(plain), "utf-16": plain.decode().encode("utf-16")}
    load(tmp_path / "text", tmp_path / "a.om")
    for name, data in forms.items():
        (tmp_path / name).write_bytes(data)
        assert [each.error for each in load(tmp_path / f"w-{name}", tmp_path / name)] == [None] * 2
        assert_same(tmp_path / f"w-{name}", tmp_path / "text")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_files, "LARGEST_WHOLE", 100)
    (tmp_path / "a.json").write_bytes(as_answer(lines(300)))
    (report,) = load(tmp_path / "w", tmp_path / "a.json")
    assert "request a shorter time" in str(report.error)


def test_a_series_in_quotes_is_no_answer() -> None:
    assert not is_api_json(f'{{"status", instance="n1"}} 3 {T}'.encode())
