"""Charts: plain plotly figures in one style. Texts that users wrote are escaped, for plotly reads them as markup.

A figure carries the light look, which is also what is saved as an image. In the page, `assets/style.css` gives text and
lines the colours of the page's scheme, so that switching to dark redraws nothing.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

import plotly.graph_objects as go
import polars as pl

from app.explorer import wording
from app.formatting import minute
from app.results import headline_text
from app.visible import visible
from dashboards import palette

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', Arial, sans-serif"
DIM, LINE = "#5c6b7a", "#e3e8ed"

POINTS = 500
"""Most points of a line; in a longer one, each point represents an interval."""

TEMPLATE = go.layout.Template(
    layout=go.Layout(
        font={"family": FONT, "size": 12, "color": DIM},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 56, "r": 12, "t": 8, "b": 36},
        hovermode="x unified",
        hoverlabel={"font": {"family": FONT, "size": 12}, "namelength": -1},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "title": {"text": ""}},
        xaxis={"gridcolor": LINE, "linecolor": LINE, "zeroline": False, "showgrid": False, "ticks": "outside",
               "tickcolor": LINE, "automargin": True},
        yaxis={"gridcolor": LINE, "linecolor": LINE, "zeroline": False, "automargin": True, "title": {"standoff": 8}},
        bargap=0.12,
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": "#9aa5b0", "activecolor": "#5c6b7a"},
    )
)  # fmt: skip


def safe(text: object) -> str:
    r"""Text for plotly, which would read `<b>` and `<a href>` as markup; characters that hide are made visible.

    >>> safe("<b>x</b>"), safe("a\u202eb")
    ('&lt;b&gt;x&lt;/b&gt;', 'a\\u202eb')
    """
    return escape(visible(str(text)), quote=False)


def blank(height: int, **layout: object) -> go.Figure:
    """A figure in the style of all."""
    return go.Figure(layout=go.Layout(template=TEMPLATE, height=height, **layout))


def _pattern(swatch: palette.Swatch) -> dict[str, object]:
    """Hatching of unobserved time."""
    if not swatch.hatched:
        return {}
    return {
        "pattern": {"shape": "/", "size": 6, "solidity": 0.3, "fillmode": "overlay", "fgcolor": "rgba(255,255,255,0.7)"}
    }


def trend(by_day: pl.DataFrame, *, href: Callable[[str], str]) -> go.Figure:
    """GPU-hours of each day by category, stacked.

    Args:
        by_day: `subject` (a day as text), `category`, `gpu_hours`.
        href: from a day to the page about it.
    """
    made = blank(300, barmode="stack", yaxis={"title": {"text": "GPU-hours per day"}}, bargap=0)
    days = by_day["subject"].unique().sort()
    table = by_day.group_by("subject", "category").agg(pl.col("gpu_hours").sum())
    present = [name for name in palette.ORDER if name in set(table["category"])]
    for name in [*present, *sorted(set(table["category"]) - set(present))]:
        swatch = palette.swatch(name)
        values = (
            pl.DataFrame({"subject": days})
            .join(table.filter(pl.col("category") == name), on="subject", how="left")["gpu_hours"]
            .fill_null(0.0)
        )
        made.add_bar(
            x=days.to_list(),
            y=values.to_list(),
            customdata=list(map(href, days)),
            name=swatch.label,
            marker={"color": swatch.colour, "line": {"width": 0}, **_pattern(swatch)},
            hovertemplate="%{y:,.0f} GPU-h",
            showlegend=False,
        )
    made.update_xaxes(type="date", hoverformat="%Y-%m-%d", tickformat="%d %b\n%Y")
    return made


def interruptions(
    events: pl.DataFrame, days: Sequence[str], *, href: Callable[[str], str], height: int = 300
) -> go.Figure:
    """Interruptions of each day by class, stacked.

    Args:
        events: `day`, `class`, `n`.
        days: every day of the window, so that a day without interruptions is drawn, too.
        href: from a day to the page about it.
        height: in pixels.
    """
    made = blank(height, barmode="stack", yaxis={"title": {"text": "interruptions per day"}, "rangemode": "tozero"})
    counts = events.group_by("day", "class").agg(pl.col("n").sum().alias("len"))
    for name in [*palette.CLASS_COLOURS, *sorted(set(counts["class"]) - set(palette.CLASS_COLOURS))]:
        values = pl.DataFrame({"day": days}, schema={"day": pl.String}).join(
            counts.filter(pl.col("class") == name), on="day", how="left"
        )["len"]
        if values.null_count() == values.len():
            continue
        made.add_bar(
            x=list(days),
            y=values.fill_null(0).to_list(),
            customdata=list(map(href, days)),
            name=safe(name),
            marker={"color": palette.CLASS_COLOURS.get(name, "#888888"), "line": {"width": 0}},
            hovertemplate="%{y}",
        )
    made.update_xaxes(type="date", hoverformat="%Y-%m-%d", tickformat="%d %b\n%Y")
    if events.height and events.group_by("day").agg(pl.col("n").sum())["n"].max() <= FEW:  # type: ignore[operator]  # a count
        made.update_yaxes(dtick=1)
    return made


FEW: Final = 5
"""Interruptions of a day up to which an axis has a line for each; else it would have fractions of one."""


def timeline(rows: pl.DataFrame, ends: pl.DataFrame) -> go.Figure:
    """What each attempt of a run did when: one line per attempt.

    Args:
        rows: `attempt_no`, `started_at`, `ended_at`, `category`, `cause`, `evidence`, `gpus`.
        ends: interruptions: `attempt_no`, `ended_at`, `class`, `cause`.
    """
    attempts = rows["attempt_no"].unique().sort().to_list()
    height = 74 + max(1, len(attempts)) * (26 if len(attempts) < 30 else 12)
    made = blank(height, barmode="overlay", hovermode="closest", margin={"l": 64, "r": 12, "t": 8, "b": 40})
    segments = _segments(rows)
    shown = set(segments["category"])
    for name in [palette.QUEUED.name, *palette.ORDER, *sorted(shown - {palette.QUEUED.name, *palette.ORDER})]:
        part = segments.filter(pl.col("category") == name)
        if part.is_empty():
            continue
        swatch = palette.swatch(name)
        thick = 0.3 if name == palette.QUEUED.name else 0.8
        made.add_bar(
            x=_ms(part["middle"]),
            width=(part["length_ms"] * 1.02).round().to_list(),  # so that no hairline shows between neighbours
            base=(part["attempt_no"] - thick / 2 + thick * part["below"]).round(4).to_list(),
            y=(thick * part["share"]).round(4).to_list(),
            name=swatch.label,
            marker={"color": swatch.colour, "line": {"width": 0}, **_pattern(swatch)},
            customdata=[_of_segment(row) for row in part.iter_rows(named=True)],
            hovertemplate=f"<b>{safe(swatch.label)}</b>%{{customdata[0]}}<br>%{{customdata[1]}}<br>"
            "%{customdata[2]} to %{customdata[3]} UTC<extra></extra>",
            showlegend=False,
        )
    if ends.height:
        made.add_scatter(
            x=ends["ended_at"].to_list(),
            y=ends["attempt_no"].to_list(),
            mode="markers",
            name="interruption",
            marker={"symbol": "x", "size": 9, "color": "#D1242F", "line": {"width": 1, "color": "white"}},
            hovertext=[_ended(row) for row in ends.iter_rows(named=True)],
            hovertemplate="%{hovertext}<extra></extra>",
            showlegend=False,
        )  # fmt: skip
    made.update_xaxes(type="date", showgrid=True)
    made.update_yaxes(
        range=[max(attempts) + 0.6, min(attempts) - 0.6] if attempts else None,
        tickprefix="attempt ",
        tick0=1,
        dtick=max(1, -(-len(attempts) // 20)),
        showgrid=False,
        fixedrange=True,
    )
    return made


MOST_SEGMENTS = 400
"""Most intervals of a timeline; in a longer one, each interval shows its categories in proportion."""


def _segments(rows: pl.DataFrame) -> pl.DataFrame:
    """The rectangles of a timeline: in each interval of an attempt, its categories on top of each other by GPU-time.

    A month of training holds thousands of checkpoints of a minute. Drawn one by one they would cover everything else,
    for nothing is narrower than a pixel.

    Returns:
        `attempt_no`, `category`, `middle`, `length_ms`, `started_at`, `ended_at`, `share` and `below` (of the height).
    """
    held = rows.filter(pl.col("ended_at") > pl.col("started_at")).select(
        "attempt_no",
        "category",
        low=pl.col("started_at").dt.epoch("us"),
        high=pl.col("ended_at").dt.epoch("us"),
        gpus=pl.col("gpus").cast(pl.Float64).clip(lower_bound=0.001),
    )
    if held.is_empty():
        return pl.DataFrame(schema={"category": pl.String})
    edges = pl.concat([held["low"], held["high"]]).unique().sort()
    if edges.len() > MOST_SEGMENTS:
        first, last = int(edges[0]), int(edges[-1])
        ends = held.group_by("attempt_no").agg(pl.col("low").min(), pl.col("high").max())
        even = pl.int_range(first, last, max(1, (last - first) // MOST_SEGMENTS), eager=True)
        edges = pl.concat([even, ends["low"], ends["high"]]).unique().sort()
    spans = pl.DataFrame({"from": edges, "to": edges.shift(-1)}).drop_nulls()
    cut = held.join_where(spans, pl.col("low") < pl.col("to"), pl.col("from") < pl.col("high")).with_columns(
        amount=(pl.min_horizontal("high", "to") - pl.max_horizontal("low", "from")) * pl.col("gpus")
    )
    order = {name: at for at, name in enumerate((palette.QUEUED.name, *palette.ORDER))}
    span = ["attempt_no", "from", "to"]
    share = pl.col("amount") / pl.col("amount").sum().over(span)
    shared = (
        cut.group_by(*span, "category")
        .agg(pl.col("amount").sum())
        .with_columns(order=pl.col("category").replace_strict(order, default=len(order)), share=share)
        .sort(*span, "order", descending=[False, False, False, True])
        .with_columns(below=pl.col("share").cum_sum().over(span) - pl.col("share"))
    )
    return _merged(shared.filter(pl.col("share") >= VISIBLE)).select(
        "attempt_no",
        "category",
        _time((pl.col("from") + pl.col("to")) // 2).alias("middle"),
        ((pl.col("to") - pl.col("from")) / 1000).alias("length_ms"),
        _time(pl.col("from")).alias("started_at"),
        _time(pl.col("to")).alias("ended_at"),
        "share",
        "below",
    )


VISIBLE = 0.04
"""Share of an interval that is drawn: less is not half a pixel of a line that is 12 pixels high."""


def _merged(rows: pl.DataFrame) -> pl.DataFrame:
    """One rectangle for neighbouring intervals of an attempt in which the same category is all that can be seen."""
    alone = pl.len().over("attempt_no", "from") == 1
    follows = (
        (pl.col("attempt_no") == pl.col("attempt_no").shift(1))
        & (pl.col("from") == pl.col("to").shift(1))
        & (pl.col("category") == pl.col("category").shift(1))
        & pl.col("alone")
        & pl.col("alone").shift(1)
    ).fill_null(value=False)
    length = (pl.col("to") - pl.col("from")).cast(pl.Float64)
    mean = [(pl.col(name) * length).sum() / length.sum() for name in ("share", "below")]
    return (
        rows.with_columns(alone=alone)
        .with_columns(part=(~follows).cum_sum())
        .group_by("part", maintain_order=True)
        .agg(pl.col("attempt_no", "category", "from").first(), pl.col("to").last(), *mean)
    )


def _time(us: pl.Expr) -> pl.Expr:
    return pl.from_epoch(us, time_unit="us").dt.replace_time_zone("UTC")


def _of_segment(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """The tooltip of a segment beside its category: share, attempt and length, from, to."""
    length = headline_text.days((row["ended_at"] - row["started_at"]).total_seconds())
    part = "" if row["share"] > 0.9995 else f", {headline_text.share(row['share'])} of it"
    began, ended = (minute(row[end]) for end in ("started_at", "ended_at"))
    return part, f"attempt {row['attempt_no']}, {length}", began, ended


def _ms(times: pl.Series) -> list[int]:
    """Times as plotly reads them from numbers: half as long as texts, of which a chart has thousands."""
    return times.dt.epoch("ms").to_list()


def _ended(row: Mapping[str, Any]) -> str:
    cause = wording.in_words(row["cause"])
    return f"<b>{safe(row['class'])}: {safe(cause)}</b><br>{minute(row['ended_at'])} UTC"


def steps(rows: pl.DataFrame, *, height: int = 300) -> go.Figure:
    """Duration of the steps of a run over time, and its loss beneath if it was logged.

    Args:
        rows: `ts`, `step`, `duration_s`, `loss`, `kept`.
        height: of the upper chart, in pixels.
    """
    with_loss = rows["loss"].null_count() < rows.height
    made = blank(
        height + (170 if with_loss else 0),
        hovermode="closest",
        yaxis={"title": {"text": "seconds per step"}, "rangemode": "tozero",
               "domain": [0.42, 1] if with_loss else [0, 1]},
    )  # fmt: skip
    some = _thinned(rows.filter(pl.col("kept").fill_null(value=True)))
    run_again = _thinned(rows.filter(~pl.col("kept").fill_null(value=True)))
    made.add_scatter(
        x=_ms(some["ts"]), y=_rounded(some["duration_s"]), customdata=some["step"].to_list(), mode="markers",
        name="kept", marker={"size": 3.5, "color": palette.swatch("productive").colour},
        hovertemplate="step %{customdata:,}<br>%{y:.3g} s<br>%{x|%Y-%m-%d %H:%M:%S} UTC<extra>kept</extra>",
    )  # fmt: skip
    if run_again.height:
        made.add_scatter(
            x=_ms(run_again["ts"]), y=_rounded(run_again["duration_s"]), customdata=run_again["step"].to_list(),
            mode="markers", name="lost: run again later",
            marker={"size": 5, "symbol": "x", "color": palette.swatch("lost").colour},
            hovertemplate="step %{customdata:,}<br>%{y:.3g} s<br>%{x|%Y-%m-%d %H:%M:%S} UTC<extra>lost</extra>",
        )  # fmt: skip
    high = rows["duration_s"].drop_nulls().quantile(0.99)
    if high:
        made.update_layout(yaxis_range=[0, float(high) * 1.6])
    if with_loss:
        made.add_scatter(
            x=_ms(some["ts"]), y=_rounded(some["loss"]), customdata=some["step"].to_list(), mode="lines",
            name="loss", yaxis="y2", line={"width": 1.5, "color": "#8A6D3B"},
            hovertemplate="step %{customdata:,}<br>loss %{y:.4g}<extra></extra>",
        )  # fmt: skip
        made.update_layout(yaxis2={"title": {"text": "loss"}, "domain": [0, 0.32], "anchor": "x"})
    made.update_xaxes(type="date", showgrid=True, anchor="y2" if with_loss else "y")
    made.update_layout(uirevision="steps")  # what was zoomed in to stays, when more of its points come
    return made


def _rounded(values: pl.Series) -> list[float | None]:
    """Values to five digits: a chart shows no more."""
    return values.cast(pl.Float64).round_sig_figs(5).to_list()


def _thinned(rows: pl.DataFrame) -> pl.DataFrame:
    """At most `POINTS` rows: of each interval the median step and the slowest, so that spikes stay."""
    if rows.height <= POINTS:
        return rows
    interval = rows.height // (POINTS // 2) + 1
    numbered = rows.sort("ts").with_row_index("_row").with_columns(_stretch=pl.col("_row") // interval)
    middle = numbered.group_by("_stretch", maintain_order=True).agg(pl.all().sort_by("duration_s").get(pl.len() // 2))
    worst = numbered.group_by("_stretch", maintain_order=True).agg(pl.all().sort_by("duration_s").last())
    return pl.concat([middle, worst]).unique("_row").sort("ts").drop("_row", "_stretch")
