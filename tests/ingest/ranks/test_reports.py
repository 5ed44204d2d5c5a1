"""Straggler reports in logs: the examples of each format, times and zones, what is refused, and what is shown."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest

from ingest.errors import TimeZoneError, UnrecognisedInputError
from ingest.ranks.parse_reports import parse_reports
from ingest.ranks.report_format import formats
from ingest.ranks.stated import Stated
from metrics.stragglers.reported import reported_ranks
from queries.warehouse import open_reader
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.ranks.report_format import ReportExample
    from ingest.tables import Parsed

BEGIN = datetime(2026, 1, 5, 23, 7, 56, tzinfo=UTC)
EXAMPLES = [(form.name, example) for form in formats() for example in form.examples]


def parsed(text: str, stated: Stated | None = None) -> Parsed:
    return parse_reports([text.encode()], origin="a.log", cluster="c", stated=stated or Stated(timezone="UTC"))


def megatron(minute: int, slow: int, low: float = 296.02, *, rank: int = 8) -> str:
    at = f"{BEGIN + timedelta(minutes=minute):%Y-%m-%d %H:%M:%S}"
    return (
        f" 0: INFO:megatron.core.utils:[{at}] | MnRtt/Rnk: 3453.08ms/{rank} | MxRtt/Rnk: 3468.20ms/{slow} | "
        f"MnEtpt/Rnk: {low:.2f}TF/{slow} | MxEtpt/Rnk: 297.32TF/{rank}\n"
    )


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_example_gives_what_its_format_says(name: str, example: ReportExample) -> None:
    rows = parsed(example.text, Stated(timezone="UTC")).frames["rank_reports"]
    got = sorted(rows.select("measure", "place", "rank", "value").rows(), key=str)
    wanted = sorted(((*each, None)[:4] for each in example.gives), key=str)
    assert [row[:3] for row in got] == [row[:3] for row in wanted]
    assert [row[3] for row in got] == pytest.approx([row[3] for row in wanted])
    assert set(rows["program"]) == {name}


def test_times_are_of_the_stated_zone_or_of_their_offset() -> None:
    rows = parsed(megatron(0, 3), Stated(timezone="America/New_York")).frames["rank_reports"]
    assert set(rows["reported_at"]) == {BEGIN + timedelta(hours=5)}
    text = megatron(0, 3).replace("23:07:56]", "23:07:56+09:00]")
    assert set(parsed(text, Stated()).frames["rank_reports"]["reported_at"]) == {BEGIN - timedelta(hours=9)}


def test_local_times_without_a_zone_are_refused() -> None:
    with pytest.raises(TimeZoneError, match="--timezone"):
        parsed(megatron(0, 3), Stated())
    with pytest.raises(TimeZoneError, match="Europe/Atlantis"):
        parsed(megatron(0, 3), Stated(timezone="Europe/Atlantis"))


def test_report_before_any_time_is_rejected_with_its_line() -> None:
    line = "DETECTED RELATIVE STRAGGLER GPU RANK=3 NODE=n1\n"
    done = parsed(line + megatron(0, 3))
    assert (done.rows_rejected, done.rows_loaded, done.rows_read) == (1, 4, 5)
    assert done.rejects["raw"].item() == f"1: {line.strip()}"


def test_log_without_reports_is_named_as_such() -> None:
    with pytest.raises(UnrecognisedInputError, match="neither rank times"):
        parsed("hello\n")


def test_step_is_the_last_one_before_the_report() -> None:
    step = " [2026-01-05 23:00:00] iteration      100/  5000 | consumed samples: 6400 |\n"
    rows = parsed(megatron(0, 3) + step + megatron(1, 3)).frames["rank_reports"]
    assert rows.filter(measure="flops_per_s", place="lowest")["step"].to_list() == [None, 100]


@pytest.mark.parametrize("cut", range(1, 400, 37))
def test_cut_log_gives_the_reports_that_are_whole(cut: int) -> None:
    text = "".join(megatron(minute, 3) for minute in range(3))
    whole, part = (set(parsed(each).frames["rank_reports"].rows()) for each in (text, text[: len(text) - cut]))
    assert len(whole) == 12
    assert {row[:9] for row in part} <= {row[:9] for row in whole}  # a number that is cut has another value


def test_slowest_rank_is_counted_over_its_reports() -> None:
    text = "".join(megatron(minute, 3 if minute < 6 else 5, low=200.0) for minute in range(8))
    rows = reported_ranks(parsed(text).frames["rank_reports"])
    first = rows.filter(measure="flops_per_s").to_dicts()
    assert [(row["rank"], row["times_slowest"], row["reports"], row["share"]) for row in first] == [
        (3, 6, 8, 0.75),
        (5, 2, 8, 0.25),
    ]
    assert first[0]["times_fastest"] == pytest.approx(297.32 / 200)


def test_equal_ranks_have_no_slowest() -> None:
    text = "[2026-01-05 23:00:00] MnEtpt/Rnk: 297.32TF/0 | MxEtpt/Rnk: 297.32TF/8\n"
    assert reported_ranks(parsed(text).frames["rank_reports"]).is_empty()


def test_full_list_names_its_slowest() -> None:
    lines = "".join(f"  Rank={rank} Node=n{rank} Score={0.5 + rank / 10:.2f}\n" for rank in range(4))
    text = f"[NeMo I 2026-01-05 23:00:00 x:1]\nGPU relative performance:\n{lines}"
    row = reported_ranks(parsed(text).frames["rank_reports"]).row(0, named=True)
    assert (row["rank"], row["node"], row["worst"], row["times_fastest"]) == (0, "n0", 0.5, pytest.approx(1.6))


def test_order_of_rows_and_loading_twice_change_nothing(tmp_path: Path) -> None:
    text = "".join(megatron(minute, minute % 3) for minute in range(6))
    rows = parsed(text).frames["rank_reports"]
    assert reported_ranks(rows).equals(reported_ranks(rows.sample(fraction=1.0, shuffle=True, seed=1)))
    (tmp_path / "a.log").write_text("".join(megatron(minute, minute % 3) for minute in range(2)))
    (tmp_path / "b.log").write_text(text)
    load = ["ingest", "ranks", "--timezone", "UTC", "--run", "r", "--warehouse", str(tmp_path / "w")]
    for name in ("b.log", "a.log", "b.log"):
        assert trackside(*load, str(tmp_path / name)).returncode == 0
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("rank_reports").height == rows.height


def test_report_is_shown_without_accounting(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(megatron(0, 3) + megatron(1, 3))
    place = ["--warehouse", str(tmp_path / "w")]
    assert trackside("ingest", "ranks", "--timezone", "UTC", str(tmp_path / "train.log"), *place).returncode == 0
    shown = trackside("show", "stragglers", "--by", "report", "--format", "json", *place)
    assert shown.returncode == 0
    assert '"train"' in json.dumps(json.loads(shown.stdout))


def test_large_numbers_do_not_break_the_load() -> None:
    done = parsed(megatron(0, 10**30))
    assert done.rows_rejected == 2
    assert pl.Series(done.frames["rank_reports"]["rank"]).to_list() == [8, 8]
