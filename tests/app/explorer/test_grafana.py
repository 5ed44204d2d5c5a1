"""Links from pages of the explorer to boards of Grafana, and from there back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

import pytest

from app.claims.watched import WatchedClaims
from app.config import settings as config
from app.config.grafana import GrafanaSettings
from app.errors import ConfigError
from app.explorer import grafana
from app.explorer.application import Explorer, page
from app.explorer.filters import ClusterState, Situation, resolve
from app.explorer.page import pages
from app.results.serving.cache import AnswerCache
from dashboards.boards.fleet import TARGETS
from dashboards.build import boards, sql_boards
from dashboards.parts import EXPLORER_PAGES
from tests.app.explorer.test_pages import components

if TYPE_CHECKING:
    from pathlib import Path

SINCE, UNTIL = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 15, tzinfo=UTC)
STATES: Final = tuple(ClusterState(name, SINCE, UNTIL, UNTIL, 0, ()) for name in ("alpha", "beta"))
SITUATION: Final = Situation(("alpha", "beta"), STATES)
URL: Final = "https://grafana.example.org/base"


def test_every_page_with_a_board_and_every_variable_is_there() -> None:
    made = {name: make(TARGETS) for name, make in boards().items()}
    for path, name in grafana.BOARDS.items():
        assert path in pages()
        variables = {each["name"] for each in made[name]["templating"]["list"]}
        assert {"cluster", "explorer_url", *grafana.VARIABLES.get(path, {}).values()} <= variables, path


def test_every_board_leads_back_to_a_page_that_is_there() -> None:
    made = [make(TARGETS) for make in (*boards().values(), *sql_boards().values())]
    assert {f"/{each}" for each in EXPLORER_PAGES.values()} <= set(pages())
    assert set(EXPLORER_PAGES) <= {board["uid"] for board in made}
    for board in made:
        (link,) = (each["url"] for each in board["links"] if each["title"] == "Explorer")
        assert link.startswith(f"${{explorer_url:raw}}/{EXPLORER_PAGES.get(board['uid'], '')}?since=")
        assert link.endswith("&clusters=${cluster:percentencode}")


def test_a_run_leads_to_its_board_with_cluster_time_and_way_back() -> None:
    params = {"cluster": "beta", "id": "a&b=c/7", "since": "2026-10-02", "until": "2026-10-03"}
    target = grafana.address(URL, "/run", resolve(SITUATION, params), "https://explorer:8050/run?id=a%26b&x=1#top")
    assert target is not None
    parts = urlsplit(target)
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{URL}/d/trackside-job"
    assert parse_qs(parts.query) == {
        "var-cluster": ["beta"],
        "var-run": ["a&b=c/7"],
        "var-explorer_url": ["https://explorer:8050"],
        "from": ["1790899200000"],
        "to": ["1790985600000"],
    }


@pytest.mark.parametrize("page_url", ["", "javascript:alert(1)", "//x", "file:///etc"])
def test_an_odd_address_of_the_page_is_no_way_back(page_url: str) -> None:
    target = grafana.address(URL, "/", resolve(SITUATION, {}), page_url)
    assert target is not None
    assert "explorer_url" not in target


def test_without_a_board_or_without_grafana_there_is_no_link() -> None:
    shown = resolve(SITUATION, {})
    assert grafana.address(URL, "/scaling", shown) is None
    assert grafana.link(None, "/", shown) is None


@pytest.mark.slow
def test_the_link_stands_above_the_page(warehouse: Path) -> None:
    explorer = Explorer(AnswerCache(warehouse), WatchedClaims(None), grafana=URL)
    _, filters, _, _ = page(explorer, "/nodes", "", page_url="http://127.0.0.1:8050/nodes")
    (link,) = (each for each in components(filters) if getattr(each, "className", "") == "to-grafana")
    assert link.href.startswith(f"{URL}/d/trackside-reliability?var-cluster=")
    assert link.rel == "noopener"


@pytest.mark.parametrize(
    ("clusters", "cluster"),
    [("beta", "beta"), ("{beta}", "beta"), ("{alpha,beta}", "alpha"), (".*", "alpha"), ("{beta,gone}", "beta")],
)
def test_clusters_of_a_board_choose_one_where_they_are_one(clusters: str, cluster: str) -> None:
    shown = resolve(SITUATION, {"clusters": clusters})
    assert shown.window.cluster == cluster
    assert "clusters" not in shown.params
    assert shown.link("/runs") == ("/runs?cluster=beta" if cluster == "beta" else "/runs")


def test_a_cluster_in_the_address_goes_before_those_of_a_board() -> None:
    assert resolve(SITUATION, {"clusters": "beta", "cluster": "alpha"}).window.cluster == "alpha"


def test_the_address_of_grafana_is_checked_and_loses_its_slash() -> None:
    assert GrafanaSettings(url=f"{URL}/").url == URL
    for wrong in ("grafana:3000", "https://me:pw@grafana", "https://grafana/?orgId=1", "javascript:alert(1)"):
        with pytest.raises(ConfigError, match="without a password") as error:
            config.parse({"grafana": {"url": wrong}}, origin="test")
        assert "me:pw" not in str(error.value)
