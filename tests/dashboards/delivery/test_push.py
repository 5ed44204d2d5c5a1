"""`trackside dashboards push`: what comes to a Grafana, what is left alone, and what is said where it cannot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from app.cli.main import main
from dashboards.build import boards, build
from tests.dashboards.delivery.stand_in import TOKEN, StandIn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FLEET = "trackside-fleet"


@pytest.fixture
def grafana() -> Iterator[StandIn]:
    with StandIn() as server:
        yield server


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAFANA_TOKEN", TOKEN)
    monkeypatch.delenv("GRAFANA_URL", raising=False)


def _push(server: StandIn, *options: str) -> int:
    return main(["dashboards", "push", "--grafana", server.url, *options])


def test_push_makes_folder_and_boards_and_then_nothing(grafana: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    assert _push(grafana) == 0
    assert grafana.folders == {"trackside": "Trackside"}
    assert len(grafana.boards) == len(boards())
    assert {board.folder for board in grafana.boards.values()} == {"trackside"}
    assert capsys.readouterr().out.count(": made\n") == len(boards())
    assert _push(grafana) == 0
    assert len(grafana.saves) == len(boards())
    assert capsys.readouterr().out.count(": unchanged\n") == len(boards())


def test_push_knows_its_boards_where_grafana_migrated_them(grafana: StandIn) -> None:
    _push(grafana)
    content, message = grafana.boards[FLEET].versions[-1]
    grafana.boards[FLEET].versions[-1] = ({**content, "schemaVersion": 42, "preload": False}, message)
    assert _push(grafana) == 0
    assert len(grafana.boards[FLEET].versions) == 1


@pytest.mark.slow
@pytest.mark.parametrize("plain", [True, False], ids=["grafana_10", "grafana_11"])
def test_push_leaves_a_board_that_a_person_edited(
    plain: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with StandIn(plain_versions=plain) as server:
        _push(server)
        server.edit(FLEET, title="Ours")
        capsys.readouterr()
        assert _push(server, "--diff") == 2
        output = capsys.readouterr().out
        assert "trackside-fleet): left: edited in Grafana" in output
        assert '-"title":"Ours"' in output.replace(" ", "")
        assert server.boards[FLEET].versions[-1][0]["title"] == "Ours"
        assert _push(server, "--replace-edits") == 0
        assert len(server.boards[FLEET].versions) == 3  # the edit stays in its history
        assert server.boards[FLEET].versions[-1][0]["title"] == "Trackside: fleet"


@pytest.mark.slow
def test_push_replaces_what_it_brought_and_keeps_its_folder(grafana: StandIn, tmp_path: Path) -> None:
    build(tmp_path)
    _push(grafana)
    grafana.folders["ours"] = "Ours"
    grafana.boards[FLEET].folder = "ours"
    path = tmp_path / "boards" / "fleet.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "title": "Trackside: all clusters"}))
    assert _push(grafana, "--dir", str(tmp_path / "boards")) == 0
    assert grafana.boards[FLEET].folder == "ours"
    assert grafana.boards[FLEET].versions[-1][0]["title"] == "Trackside: all clusters"
    assert grafana.saves[-1]["overwrite"] is False


def test_push_in_a_dry_run_changes_nothing(grafana: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    assert _push(grafana, "--dry-run") == 0
    assert not grafana.saves
    assert not grafana.folders
    assert capsys.readouterr().out.count(": would be made\n") == len(boards())


def test_push_leaves_boards_that_grafana_reads_from_files(grafana: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    _push(grafana)
    grafana.edit(FLEET, title="Ours")
    grafana.boards[FLEET].provisioned = True
    assert _push(grafana, "--replace-edits") == 2
    assert "left: Grafana reads it from files" in capsys.readouterr().out
    assert grafana.boards[FLEET].versions[-1][0]["title"] == "Ours"


def test_push_takes_the_address_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with StandIn(prefix="/grafana") as server:
        monkeypatch.setenv("GRAFANA_URL", server.url + "/")
        assert main(["dashboards", "push", "--quiet"]) == 0
        assert len(server.boards) == len(boards())


@pytest.mark.slow
def test_push_of_a_damaged_board_sends_nothing(grafana: StandIn, tmp_path: Path) -> None:
    build(tmp_path)
    path = tmp_path / "boards" / "fleet.json"
    path.write_text(path.read_text().replace('"percentunit"', '"percents"'))
    assert _push(grafana, "--dir", str(tmp_path / "boards")) == 2
    assert not grafana.saves


@pytest.mark.parametrize(
    ("token", "says"),
    [("glsa_wrong", "does not accept the token"), (TOKEN, "role Editor"), ("", "holds no token")],
    ids=["wrong", "reader", "none"],
)
def test_push_says_what_the_token_lacks_and_never_the_token(
    token: str, says: str, grafana: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRAFANA_TOKEN", token)
    grafana.may_save = False
    assert _push(grafana) == 2
    output = capsys.readouterr()
    assert says in output.err
    assert not token or token not in output.err + output.out


def test_push_without_a_server_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboards", "push"]) == 2
    assert "GRAFANA_URL" in capsys.readouterr().err
    assert main(["dashboards", "push", "--grafana", "http://127.0.0.1:1"]) == 22
    assert "did not answer (ConnectionError)" in capsys.readouterr().err
    assert main(["dashboards", "push", "--grafana", "http://me:secret@127.0.0.1:1"]) == 2
    assert "secret" not in capsys.readouterr().err
