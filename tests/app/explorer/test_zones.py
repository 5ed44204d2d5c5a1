"""The time zone of a page: dates and months with its midnights, tables with its clocks, stored times in UTC."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import polars as pl
import pytest

from app.errors import UsageError
from app.explorer import components, filters, zones
from app.explorer.application import with_filter
from app.explorer.filters import ClusterState, Situation, View
from app.results.runs.runs import resolve_run
from queries.warehouse import open_reader

if TYPE_CHECKING:
    from pathlib import Path

    from tests.app.explorer.conftest import Site
    from tests.lab.browser import Browser

BERLIN = {"zone": "Europe/Berlin"}
STATE = ClusterState(
    "c", datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC), 0, ()
)
SITUATION = Situation(("c",), (STATE,), 1)


def view(**params: str) -> View:
    return filters.resolve(SITUATION, params)


def edges(shown: View) -> tuple[str, str]:
    return shown.window.since.isoformat(), shown.window.until.isoformat()


def test_each_zone_on_offer_can_be_shown_in_tables() -> None:
    rows = pl.DataFrame({"at": [datetime(2026, 7, 1, tzinfo=UTC)]})
    assert {"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"} <= {*zones.names()}
    for name in zones.names():
        shown = zones.local_times(rows, zones.zone_of({"zone": name}))["at"][0]
        assert shown.utcoffset() == datetime(2026, 7, 1, tzinfo=UTC).astimezone(zoneinfo.ZoneInfo(name)).utcoffset()


def test_dates_of_an_address_begin_at_midnight_of_its_zone() -> None:
    october = {"since": "2026-10-01", "until": "2026-11-01"}
    assert edges(view(**october)) == ("2026-10-01T00:00:00+00:00", "2026-11-01T00:00:00+00:00")
    # Summer time ends on 25 October: the month has an hour more.
    assert edges(view(**october, **BERLIN)) == ("2026-09-30T22:00:00+00:00", "2026-10-31T23:00:00+00:00")


def test_times_with_an_offset_mean_the_same_in_every_zone() -> None:
    typed = {"since": "2026-10-01T12:00Z", "until": "2026-10-02T12:00+02:00"}
    assert edges(view(**typed)) == edges(view(**typed, **BERLIN))


@pytest.mark.parametrize("name", ["Europe/Nowhere", "localtime", "../../etc/passwd", "<b>x</b>"])
def test_an_unknown_zone_is_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError, match="is no time zone"):
        view(zone=name)


def test_months_on_offer_are_those_of_the_zone() -> None:
    shown = view(zone="America/New_York")  # the data begin on 31 August there
    offered = filters.periods(shown.state, shown.zone)
    assert [key for key in offered if key.startswith("2026")] == ["2026-11", "2026-10", "2026-09", "2026-08"]
    chosen = with_filter(shown, shown.params, "period", "2026-10")
    assert chosen == {"zone": "America/New_York", "since": "2026-10-01", "until": "2026-11-01"}
    assert filters.period_of(view(**chosen)) == "2026-10"
    assert edges(view(**chosen))[0] == "2026-10-01T04:00:00+00:00"


def test_the_days_of_the_calendar_are_those_of_the_zone() -> None:
    shown = view(since="2026-10-05", until="2026-10-07", zone="Asia/Tokyo")
    assert filters.days(shown.window, shown.zone) == ["2026-10-05", "2026-10-06"]
    assert with_filter(shown, shown.params, "dates", ["2026-10-05", "2026-10-06"]) == shown.params  # it changes nothing


def test_the_command_names_the_same_time_in_utc() -> None:
    shown = view(since="2026-10-01", until="2026-11-01", **BERLIN)
    assert shown.command == "--cluster c --since 2026-09-30T22:00:00Z --until 2026-10-31T23:00:00Z"
    assert view(since="7d").command == "--cluster c --since 7d"


def test_links_and_another_cluster_keep_the_zone() -> None:
    shown = view(**BERLIN)
    assert shown.link("/runs", user="ada") == "/runs?zone=Europe%2FBerlin&user=ada"
    assert with_filter(shown, {**shown.params, "user": "ada"}, "cluster", "d") == {"cluster": "d", **BERLIN}


def test_choosing_utc_again_leaves_the_address_without_zone() -> None:
    assert with_filter(view(**BERLIN), BERLIN, "zone=UTC", "UTC") == {}
    assert with_filter(view(), {}, "zone=UTC", "UTC") == {}


def test_a_table_shows_the_clocks_of_the_zone_and_saves_utc() -> None:
    rows = pl.DataFrame({"at": [datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)]})
    made = components.grid(rows, [components.column("at", "At", "time")], name="x", zone=view(**BERLIN).zone)
    cells = made.children[0].rowData
    assert [each["at__text"] for each in cells] == ["2026-10-25 02:30", "2026-10-25 02:30"]  # the hour that comes twice
    assert [each["at"] for each in cells] == ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]


def first_start(root: Path) -> datetime:
    """When the run of job 1 began."""
    with open_reader(root) as reader:
        (run_id,) = resolve_run(reader, "tiny", "1")
        began: datetime = reader.table("runs").filter(pl.col("run_id") == run_id)["started_at"].item()
        return began


@pytest.mark.xdist_group("browser")
def test_choosing_a_zone_moves_days_and_tables_with_it(site: Site, chromium: Browser) -> None:
    chromium.open(f"{site.url}/runs?since=2026-10-03&until=2026-10-06", until=".ag-row")
    assert "2026-10-03 00:00 to 2026-10-06 00:00 UTC, 3 days" in chromium.text("#filters")
    chromium.click(".pick-zone input")
    chromium.driver.switch_to.active_element.send_keys("tokyo")
    chromium.click("[role=option]", text="Asia/Tokyo")
    chromium.until(lambda _: "2026-10-06 00:00 Asia/Tokyo, 3 days" in chromium.text("#filters"), "the days stayed")
    searched = parse_qs(urlsplit(str(chromium.run("return location.href"))).query)
    assert searched == {"since": ["2026-10-03"], "until": ["2026-10-06"], "zone": ["Asia/Tokyo"]}
    assert "Sums by day, charts and saved tables are in UTC" in chromium.text("#filters")
    assert "Started (Tokyo)" in chromium.text("#content")
    chromium.driver.back()
    chromium.until(lambda _: "2026-10-06 00:00 UTC, 3 days" in chromium.text("#filters"), "back kept the zone")
    assert chromium.console() == []


@pytest.mark.xdist_group("browser")
def test_a_run_begins_by_the_clock_of_the_zone(site: Site, chromium: Browser) -> None:
    chromium.open(f"{site.url}/run?id=1&zone=Asia/Kolkata", until=".run-head")
    began = first_start(site.root).astimezone(zoneinfo.ZoneInfo("Asia/Kolkata"))
    assert f"Started (Kolkata)\n{began:%Y-%m-%d %H:%M}" in chromium.text(".run-head")
    chromium.wait("#content .ag-row")
    assert f"{began:%Y-%m-%d %H:%M}" in chromium.text("#content .ag-row")
