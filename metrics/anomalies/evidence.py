"""Telemetry of the nodes that slow ranks are suspected on: it confirms one, or it does not.

An event of a node's hardware confirms a suspicion where it lies within the session (or the hour before, since what
lasts is reported once), and where at most a quarter of the session's other nodes had such an event: an event of all
nodes does not distinguish one of them. A deviation from the peers confirms it where it overlaps the session.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics import frames
from metrics.anomalies.signals import BY_NAME
from metrics.stragglers.verdict import FEW

BEFORE_S: Final = 3600
"""An event that lasts may have been reported so long before the session began."""

_SESSION: Final = ("run_id", "session")

EVIDENCE: frames.Schema = {
    "run_id": frames.TEXT,
    "session": frames.TEXT,
    "telemetry": frames.TEXT,
    "telemetry_since": frames.TIME,
}
"""Findings of telemetry on the suspected nodes of a session, in words, and since when."""


def telemetry_evidence(
    suspects: pl.DataFrame, nodes: pl.DataFrame, events: pl.DataFrame, anomalies: pl.DataFrame
) -> pl.DataFrame:
    """Evidence for suspected nodes.

    Args:
        suspects: `run_id`, `session`, `node`.
        nodes: all nodes of these sessions: `run_id`, `session`, `node`, `since`, `until`.
        events: of hardware: `node`, `ts`, `gpu`, `kind`, `code`, `device`.
        anomalies: `scan.ANOMALIES`; only what is anomalous counts.

    Returns:
        `EVIDENCE`; sessions without any have no row.
    """
    spans = suspects.join(nodes, on=[*_SESSION, "node"])
    shown = pl.concat([_of_events(spans, nodes, events), _of_anomalies(spans, anomalies)]).sort("began", "text")
    several = pl.col("node").n_unique().over(_SESSION) > 1
    text = pl.when(several).then(pl.format("{}: {}", "node", "text")).otherwise("text")
    grouped = shown.with_columns(text=text).group_by(_SESSION, maintain_order=True)
    return frames.conform(
        grouped.agg(telemetry=pl.col("text").str.join("; "), telemetry_since=pl.col("began").min()), EVIDENCE
    )


def _of_events(spans: pl.DataFrame, nodes: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Events of suspected nodes that few of their peers had."""
    what = ("kind", "code")
    near = nodes.join(events, on="node").filter(
        pl.col("ts") >= pl.col("since") - pl.duration(seconds=BEFORE_S), pl.col("ts") < pl.col("until")
    )
    suspected = spans.select(*_SESSION, "node", suspected=True)
    marked = near.join(suspected, on=[*_SESSION, "node"], how="left").with_columns(
        pl.col("suspected").fill_null(value=False)
    )
    others = nodes.join(suspected, on=[*_SESSION, "node"], how="anti").group_by(_SESSION).agg(n_others=pl.len())
    common = marked.filter(~pl.col("suspected")).group_by(*_SESSION, *what).agg(n_had=pl.col("node").n_unique())
    mine = (
        marked.filter("suspected")
        .group_by(*_SESSION, "node", *what)
        .agg(
            gpus=pl.col("gpu").drop_nulls().unique().sort().str.join(", "),
            devices=pl.col("device").drop_nulls().unique().sort().str.join(", "),
            n=pl.len(),
            began=pl.col("ts").min(),
        )
        .join(common, on=[*_SESSION, *what], how="left")
        .join(others, on=_SESSION, how="left")
        .filter(pl.col("n_had").fill_null(0) <= FEW * pl.col("n_others").fill_null(0))
    )
    gpus = pl.when(pl.col("gpus") != "").then(pl.format(" on GPU {}", "gpus"))
    where = gpus.when(pl.col("devices") != "").then(pl.format(" on {}", "devices")).otherwise(pl.lit(""))
    times = pl.when(pl.col("n") > 1).then(pl.format(", {} times", "n")).otherwise(pl.lit(""))
    return mine.select(
        *_SESSION, "node", "began", text=pl.format("{} {}{}{} since {}", *what, where, times, _moment("began"))
    )


def _of_anomalies(spans: pl.DataFrame, anomalies: pl.DataFrame) -> pl.DataFrame:
    """Deviations of suspected nodes within their sessions."""
    flagged = anomalies.filter(pl.col("anomalous").fill_null(value=False)).rename({"since": "began", "until": "ended"})
    near = spans.join(flagged, on="node").filter(pl.col("began") < pl.col("until"), pl.col("ended") > pl.col("since"))
    return near.select(*_SESSION, "node", "began", text=pl.format("{} since {}", deviation_text(), _moment("began")))


def _moment(name: str) -> pl.Expr:
    return pl.col(name).dt.strftime("%Y-%m-%dT%H:%MZ")


def deviation_text() -> pl.Expr:
    """A row of `scan.ANOMALIES` in words: "SM clock of GPU 3 -10.0 % against its past"."""
    titles = {name: signal.title for name, signal in BY_NAME.items()}
    of = pl.when(pl.col("level") == "gpu").then(pl.format(" of GPU {}", "device")).when(pl.col("device") != "")
    device = of.then(pl.format(" of {}", "device")).otherwise(pl.lit(""))
    title = pl.col("signal").replace_strict(titles, return_dtype=pl.String)
    return pl.format("{}{} {} against its {}", title, device, effect_text("effect"), "against")


def effect_text(name: str) -> pl.Expr:
    """An effect in words, by the column `scale`: a share in percent, or kelvin; null stays.

    >>> rows = pl.DataFrame({"effect": [-0.1, 9.06], "scale": ["ratio", "kelvin"]})
    >>> rows.select(effect_text("effect")).to_series().to_list()
    ['-10.0 %', '+9.1 K']
    """
    effect = pl.col(name)
    sign = pl.when(effect < 0).then(pl.lit("-")).otherwise(pl.lit("+"))
    share = pl.format("{}{} %", sign, (100 * effect.abs()).round(1))
    return pl.when(pl.col("scale") == "ratio").then(share).otherwise(pl.format("{}{} K", sign, effect.abs().round(1)))
