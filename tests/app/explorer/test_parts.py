from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from app.explorer import components as parts
from app.explorer.charts import figures
from app.explorer.pages import overview
from app.results import headline_text
from app.results.headlines import Headline, note_of_mttf
from dashboards import palette
from metrics.categories import CATEGORIES
from tests.app.explorer.test_pages import components

BEGIN = datetime(2026, 10, 1, tzinfo=UTC)


def test_every_category_has_one_colour_and_no_two_the_same() -> None:
    assert set(palette.ORDER) == set(CATEGORIES)
    assert len({swatch.colour for swatch in palette.SWATCHES}) == len(CATEGORIES)


# Machado, Oliveira and Fernandes (2009), severity 1.
BLINDNESS = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
}


def lab(colour: str, kind: str) -> tuple[float, float, float]:
    """A colour in CIELAB as somebody sees it."""
    linear = [(int(colour[at : at + 2], 16) / 255) ** 2.2 for at in (1, 3, 5)]
    r, g, b = (min(1.0, max(0.0, sum(w * c for w, c in zip(row, linear, strict=True)))) for row in BLINDNESS[kind])
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@pytest.mark.parametrize("kind", BLINDNESS)
def test_neighbours_in_the_stack_have_distinct_colours(kind: str) -> None:
    for one, other in itertools.pairwise(palette.SWATCHES):
        distance = sum((a - b) ** 2 for a, b in zip(lab(one.colour, kind), lab(other.colour, kind), strict=True)) ** 0.5
        assert distance > 10 or one.hatched != other.hatched, f"{one.name} and {other.name}: {distance:.1f}"


def test_columns_share_a_table_by_their_own_widths() -> None:
    asked: list[dict[str, Any]] = [{"flex": 2}, {"width": 140, "minWidth": 120}, {"minWidth": 90}, {"flex": None}]
    definitions = [{"field": str(at), "headerName": "", **each} for at, each in enumerate(asked)]
    table: Any = parts.table_of(definitions, [], name="t", height=None)
    assert [each["flex"] for each in table.columnDefs] == [2, 1.4, 0.9, 0.7]
    assert not any("width" in each for each in table.columnDefs)
    assert getattr(table, "columnSize", None) is None  # it fits columns after they are drawn, and to no width at all


def test_verdict_is_shown_in_words_and_not_by_colour_alone() -> None:
    for verdict in ("supported", "refuted", "undetermined"):
        output = [each for each in components(parts.verdict_badge(verdict)) if isinstance(each, str)]
        assert verdict in " ".join(output)


def test_an_mttf_without_interruptions_says_once_what_it_pools() -> None:
    note = note_of_mttf(8.0, 0, exposed=True, law="1/N tested")
    none = Headline("mttf", "MTTF", "d", None, 3.0, 0.0, ci_low=0.5, gpus=8.0, note=note)
    card = " ".join(each for each in components(overview._card(none, [])) if isinstance(each, str))  # noqa: SLF001 - one card
    assert card.count("from jobs of all sizes") == 1
    assert "infrastructure interrupted no attempt" in card


def test_the_note_of_an_mttf_has_what_is_known_of_1_n() -> None:
    note = note_of_mttf(1024.0, 2, exposed=True, law="1/N tested")
    assert note == "from jobs of all sizes, scaled to 1,024 GPUs (1/N tested)"


def test_a_number_with_its_uncertainty_reads_as_a_sentence() -> None:
    result = Headline("ettr", "ETTR", "ratio", 0.5, 3600.0, 7200.0, bound_low=0.4, bound_high=0.6)
    assert headline_text.bounds_text(result) == "at least 40.0 %, at most 60.0 %"
    assert headline_text.interval_text(result) is None
    assert headline_text.fraction_text(result) == "1.00 productive / 2 queued and scheduled GPU-h"
    mfu = Headline("mfu", "MFU", "ratio", 0.405, 1.58e24, 3.9e24)
    assert headline_text.fraction_text(mfu) == "model 1.58 YFLOP / peak 3.9 YFLOP"
    rate = Headline("mttf", "MTTF", "d", 1.5, 3.0, 2.0, ci_low=0.5, gpus=1024.0)
    assert headline_text.fraction_text(rate) == (
        "3,072 GPU-days / 1,024 GPUs / 2 interruptions (from jobs of all sizes, by 1/N)"
    )
    assert headline_text.interval_text(rate) == "95 % interval 0.50 d to no upper limit".replace("0.50", "0.5")


@pytest.mark.parametrize(
    ("value", "low", "high", "output"),
    [
        (0.916, 0.916, 0.933, "at least 91.6 %, at most 93.3 %"),
        (0.916, 0.916, 0.9164, "91.6 %"),  # ends that read the same are no range
        (0.92, 0.916, 0.933, "92.0 %"),  # a point between its bounds
        (None, 0.2, 0.9, "cannot tell"),
        (0.4, None, None, "40.0 %"),
    ],
)
def test_a_number_that_is_its_own_lower_bound_is_called_so(
    value: float | None, low: float | None, high: float | None, output: str
) -> None:
    assert (
        headline_text.headline_text(Headline("ettr", "ETTR", "ratio", value, bound_low=low, bound_high=high)) == output
    )


def test_a_range_is_drawn_between_its_ends() -> None:
    bar = parts.span_bar(0.25, 0.5, value=0.3, target=0.97, top=1.0, what="x")
    styles = {mark.className: mark.style for mark in bar.children}
    assert styles["span-range"] == {"left": "25.00%", "width": "25.00%"}
    assert styles["span-value"]["left"] == "30.00%"
    assert styles["span-target"]["left"] == "97.00%"


def test_a_range_without_an_upper_end_is_open() -> None:
    bar = parts.span_bar(0.5, None, value=None, target=None, top=2.0, what="x")
    assert bar.children[0].className == "span-range open"
    assert bar.children[0].style == {"left": "25.00%", "width": "75.00%"}


def test_table_of_too_many_rows_reports_its_limit() -> None:
    rows = pl.DataFrame({"a": range(parts.ROWS_SHOWN + 1)})
    made = parts.grid(rows, [parts.column("a", "A", "count")], name="many", height=300)
    output = " ".join(each for each in components(made) if isinstance(each, str))
    assert "The first 5,000 of 5,001 rows" in output


def test_what_is_exported_is_in_the_unit_of_its_heading() -> None:
    made = parts.grid(pl.DataFrame({"held": [7200.0]}), [parts.column("held", "GPU-h", "gpu_h")], name="hours")
    (row,) = next(each.rowData for each in components(made) if hasattr(each, "rowData"))
    assert row == {"held": 2.0, "held__text": "2.00"}


def pieces(*held: tuple[int, float, float, str, float]) -> pl.DataFrame:
    """Rows of a timeline: attempt, from and to in hours, category, GPUs."""
    return pl.DataFrame(
        [
            {
                "attempt_no": attempt,
                "started_at": BEGIN + timedelta(hours=low),
                "ended_at": BEGIN + timedelta(hours=high),
                "category": category,
                "cause": None,
                "evidence": "log",
                "gpus": gpus,
            }
            for attempt, low, high, category, gpus in held
        ],
        schema_overrides={
            "cause": pl.String,
            "started_at": pl.Datetime("us", "UTC"),
            "ended_at": pl.Datetime("us", "UTC"),
        },
    )


def drawn(rows: pl.DataFrame) -> dict[str, float]:
    """GPU-hours that the rectangles of a timeline stand for, if a full height is 8 GPUs."""
    figure = figures.timeline(rows, rows.head(0).select("attempt_no", "ended_at", "category", "cause"))
    return {
        bar.name: sum(h / 0.8 * w / 1.02 / 3.6e6 * 8 for h, w in zip(bar.y, bar.width, strict=True))
        for bar in figure.data
    }


def test_a_timeline_draws_each_category_as_long_as_it_lasted() -> None:
    rows = pieces((1, 0, 2, "startup", 8), (1, 2, 10, "productive", 8), (2, 11, 12, "lost", 8))
    assert drawn(rows) == pytest.approx({"Startup": 16, "Productive": 64, "Lost": 8})


def test_thousands_of_checkpoints_do_not_hide_training_between() -> None:
    hours = [(1, at / 10, at / 10 + 0.095, "productive", 8) for at in range(4000)]
    hours += [(1, at / 10 + 0.095, at / 10 + 0.1, "checkpoint", 8) for at in range(4000)]
    result = drawn(pieces(*hours))
    assert result["Productive"] == pytest.approx(400 * 8 * 0.95, rel=0.01)
    assert result["Checkpoint"] == pytest.approx(400 * 8 * 0.05, rel=0.01)


def test_a_long_stretch_of_one_category_is_one_rectangle() -> None:
    rows = pieces(*[(1, at, at + 1, "productive", 8) for at in range(500)])
    figure = figures.timeline(rows, rows.head(0).select("attempt_no", "ended_at", "category", "cause"))
    assert {bar.name: len(bar.x) for bar in figure.data} == {"Productive": 1}
    assert list(figure.data[0].customdata[0][:2]) == ["", "attempt 1, 20.8 days"]


def test_charts_take_texts_of_users_as_texts() -> None:
    events = pl.DataFrame({"day": ["2026-10-01"], "class": ["<b>x</b>"], "n": [1]})
    assert figures.interruptions(events, ["2026-10-01"], href=str).data[0].name == "&lt;b&gt;x&lt;/b&gt;"


def test_a_long_line_keeps_its_slowest_points() -> None:
    n = 50_000
    rows = pl.DataFrame(
        {
            "ts": [BEGIN + timedelta(seconds=at) for at in range(n)],
            "step": range(n),
            "duration_s": [30.0 if at == 12_345 else 1.0 for at in range(n)],
            "loss": [None] * n,
            "kept": [True] * n,
        },
        schema_overrides={"loss": pl.Float64},
    )
    (line,) = figures.steps(rows).data
    assert len(line.y) <= figures.POINTS
    assert max(line.y) == 30.0


def test_a_day_without_interruptions_is_drawn_as_one() -> None:
    events = pl.DataFrame({"day": ["2026-10-01"], "class": ["user"], "n": [1]})
    made = figures.interruptions(events, ["2026-10-01", "2026-10-02"], href=str)
    assert made.layout.yaxis.dtick == 1  # no line at half an interruption
    (bars,) = made.data
    assert list(bars.y) == [1, 0]


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb by WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("swatch", [each for each in palette.SWATCHES if not each.hatched], ids=lambda each: each.name)
def test_text_on_a_colour_of_the_ledger_can_be_read(swatch: palette.Swatch) -> None:
    low, high = sorted((luminance(swatch.colour), luminance(swatch.ink)))
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_a_verdict_on_a_reading_is_called_so() -> None:
    badge = parts.verdict_badge("refuted", word_shown="refuted as read")
    assert " refuted as read" in [each for each in components(badge) if isinstance(each, str)]
