"""Where the time of a run went: its ETTR, and a bar for each category."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.run_page import texts
from app.run_page.bar import bars, draw

if TYPE_CHECKING:
    from app.run_page.contents import Row, RunContents
    from app.run_page.lines import TextPage


def ettr(page: TextPage, contents: RunContents) -> None:
    """ETTR with numerator and denominator in words."""
    row = contents.ettr
    if row is None or not row["wall_gpu_s"]:
        return
    since = " since its first line" if contents.choice.logged_only else ""
    low, high = texts.share(row["ettr_low"]), texts.share(row["ettr_high"])
    bounds = "" if low == high else f"; at least {low}, at most {high}"
    page.fact("ETTR", f"{texts.share(row['ettr'])}{since}{bounds}", "strong")
    page.fact("", f"{_above(contents, row)}, of {_below(contents, row)}")
    if 0 < row["allocated"] <= sum(part.gpu_s for part in contents.parts if part.category == "other_work"):
        page.fact("", "it does not train (config: rules.other_work): not in the cluster's ETTR")


def _above(contents: RunContents, row: Row) -> str:
    """The numerator; why it is unknown, where it is."""
    whole = row["wall_gpu_s"]
    productive = texts.hours(row["productive"], contents.unit, of=whole)
    if row["ettr"] is not None:
        return f"{productive} of training steps that were kept"
    unseen = texts.hours(row["unseen"], contents.unit, of=whole)
    return f"{unseen} unobserved and {productive} known to be productive"


def _below(contents: RunContents, row: Row) -> str:
    """The denominator."""
    whole = row["wall_gpu_s"]
    waits = row["queued_initial"] + row["queued_requeue"]
    if not waits:
        return f"{texts.hours(whole, contents.unit)} held"
    held, waited = (texts.hours(each, contents.unit, of=whole) for each in (row["allocated"], waits))
    return f"{texts.hours(whole, contents.unit)}: {held} held, {waited} {_waited(contents)}"


def _waited(contents: RunContents) -> str:
    return "in gaps between processes" if contents.choice.logged_only else "waited for"


def where(page: TextPage, contents: RunContents) -> None:
    """The bar of categories."""
    rows = bars(contents.parts, logged_only=contents.choice.logged_only)
    if not rows:
        return
    whole = texts.hours(sum(part.gpu_s for part in contents.parts), contents.unit)
    what = "GPU-time" if contents.gpus else "time"
    page.heading(f"Where its {what} went", right=whole)
    draw(page, rows, contents.unit)
