"""`trackside dashboards`: what it writes, and what it says of boards that have mistakes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from app.claims.targets import targets_of
from app.cli.main import main
from dashboards import build
from dashboards.boards import fleet
from dashboards.lint_rules import form
from metrics.claims.verdict import Claim
from queries import published
from tests.support.warehouses import from_accounting


@pytest.mark.slow
def test_build_writes_boards_and_provisioning_that_check_accepts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dashboards", "build", "--dir", str(tmp_path / "g")]) == 0
    output = capsys.readouterr()
    written = {str(path.relative_to(tmp_path / "g")) for path in (tmp_path / "g").rglob("*") if path.is_file()}
    boards = [f"boards/{name}.json" for name in build.boards()]
    by_sql = [f"{build.SQL_FOLDER}/{name}.json" for name in build.sql_boards()]
    expected = [*boards, *build.RULES, *build.OBJECTS, *build.PROVISIONING, *by_sql, build.SQL_SOURCE]
    assert written == set(expected)
    assert output.out.splitlines() == [str(tmp_path / "g" / name) for name in expected]
    assert f"TRACKSIDE_BOARDS={tmp_path}/g/boards" in output.err
    assert main(["dashboards", "check", "--dir", str(tmp_path / "g")]) == 0
    assert f"{len(boards) + len(by_sql)} boards, " in capsys.readouterr().out


@pytest.mark.slow
def test_build_writes_below_the_current_folder_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["dashboards", "build", "--quiet"]) == 0
    assert (tmp_path / "grafana" / "boards" / "fleet.json").is_file()


@pytest.mark.slow
def test_building_twice_changes_nothing(tmp_path: Path) -> None:
    first = [(path, path.read_bytes()) for path in build.build(tmp_path)]
    assert [(path, path.read_bytes()) for path in build.build(tmp_path)] == first


def test_the_boards_that_ship_have_no_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboards", "check"]) == 0
    output = capsys.readouterr().out
    assert f"the included boards: {len(build.boards()) + len(build.sql_boards())} boards, " in output
    assert "not checked here: the grammar of queries" in output


@pytest.mark.slow
def test_thresholds_are_those_of_the_claims_in_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "sla.toml").write_text(
        '[[claim]]\nid = "x"\nmetric = "ettr"\nquoted = "q"\nread_as = "r"\nkind = "delivered"\ntarget = 0.9\n'
        'direction = "at_least"\n'
    )
    (tmp_path / "t.toml").write_text(f'claims = "{tmp_path}/sla.toml"\n')
    main(["dashboards", "build", "--dir", str(tmp_path), "--config", str(tmp_path / "t.toml"), "--quiet"])
    board = json.loads((tmp_path / "boards" / "fleet.json").read_text())
    assert board == fleet.fleet({"ettr": (0.9,)})
    assert board != fleet.fleet()


def _claim(metric: str, target: float, direction: str = "at_least", gpus: float | None = None) -> Claim:
    kind = "capability"
    return Claim("c", metric, "q", "r", kind, target, direction, "ratio", gpus)  # type: ignore[arg-type]  # a plain str


def test_claim_sets_a_threshold_only_where_its_number_is_shown() -> None:
    claims = [
        _claim("mttf", 5.0, gpus=1024),
        _claim("mttf", 2.0, gpus=1024),
        _claim("mttf", 9.0, gpus=512),
        _claim("ettr", 0.5, "at_most"),
        _claim("time_to_job_restart", 60.0, "at_most"),
        _claim("occupancy", 0.9),
    ]
    assert targets_of(claims, "palm_full") == {"mttf": (2.0, 5.0), "time_to_job_restart": (60.0,)}


@pytest.mark.slow
def test_mistakes_are_listed_and_set_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build.build(tmp_path)
    path = tmp_path / "boards" / "fleet.json"
    path.write_text(path.read_text().replace("trackside_mfu_ratio", "trackside_mfu"))
    assert main(["dashboards", "check", "--dir", str(tmp_path)]) == 2
    output = capsys.readouterr()
    assert "trackside-fleet: MFU: trackside_mfu is not exported (exported_metrics)" in output.out
    assert f"mistakes in {tmp_path}, listed above" in output.err


def test_own_and_edited_boards_may_differ_in_what_is_taste(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = fleet.fleet()
    stat = board["panels"][1]
    stat["fieldConfig"]["defaults"].pop("unit")
    stat["targets"][0]["expr"] = 'avg by (pod) (DCGM_FI_DEV_GPU_UTIL{Hostname=~"n.*"})'
    board["annotations"]["list"].append(
        {"name": "Mine", "enable": True, "iconColor": "red", "datasource": form.OF_GRAFANA}
    )
    board |= {"uid": "my-board", "editable": True, "id": 12, "version": 3, "panels": board["panels"][:4]}
    (tmp_path / "mine.json").write_text(json.dumps(board))
    assert main(["dashboards", "check", "--dir", str(tmp_path)]) == 0, capsys.readouterr().out
    stat["targets"][0]["expr"] = "trackside_gpu_s"
    board["uid"] = "my board"
    (tmp_path / "mine.json").write_text(json.dumps(board))
    capsys.readouterr()
    assert main(["dashboards", "check", "--dir", str(tmp_path)]) == 2
    told = capsys.readouterr().out
    assert "trackside_gpu_s is not exported" in told
    assert "uid 'my board' is not 1 to 40" in told


@pytest.mark.parametrize(
    ("content", "output"),
    [
        (b"{", "is not JSON"),
        (b"[]", "holds no JSON object"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"{}", "this is no dashboard"),
    ],
)
def test_a_file_that_is_no_board_is_named(
    content: bytes, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odd.json").write_bytes(content)
    assert main(["dashboards", "check", "--dir", str(tmp_path)]) == 2
    reported = capsys.readouterr()
    assert output in reported.out + reported.err


def test_folder_without_boards_names_the_next_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, output in ((tmp_path, "holds no board"), (tmp_path / "none", "is not a folder")):
        assert main(["dashboards", "check", "--dir", str(folder)]) == 2
        assert output in capsys.readouterr().err


@pytest.mark.slow
def test_unwritable_folder_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["dashboards", "build", "--dir", str(tmp_path / "file")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_provisioning_files_name_no_remote_host_and_no_path() -> None:
    for name in build.PROVISIONING:
        text = (Path(build.__file__).parents[1] / "dashboards" / name).read_text(encoding="utf-8")
        reported = [line for line in text.splitlines() if not line.startswith("#")]
        assert not [line for line in reported if "http" in re.sub("httpmethod|http://127.0.0.1", "", line.lower())]
        assert not [line for line in reported if f": {os.sep}" in line]


def test_publish_writes_tables_and_says_what_reads_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, target = from_accounting(tmp_path, jobs=5), tmp_path / "p"
    assert main(["dashboards", "publish", "--warehouse", str(root), "--dir", str(target)]) == 0
    output = capsys.readouterr()
    tables = {Path(line).name for line in output.out.splitlines()}
    assert (
        tables == {path.name for path in (target / "current").iterdir()} == {f"{n}.parquet" for n in published.tables()}
    )
    assert f"TRACKSIDE_PARQUET={target}" in output.err
    assert main(["dashboards", "publish", "--warehouse", str(root)]) == 2
    assert "grafana.parquet" in capsys.readouterr().err
