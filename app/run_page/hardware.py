"""The hardware of a run: utilisation, memory, health, slow days, stragglers, stalls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.formatting import minute
from app.run_page import efficiency, slowness, texts
from app.run_page.header import components

if TYPE_CHECKING:
    from app.run_page.contents import Row, RunContents
    from app.run_page.lines import TextPage

_INCIDENTS: Final = 3
_SLOW: Final = 3


_USED: Final = (
    ("gpu_util", "busy"),
    ("tensor_active", "tensor cores"),
    ("sm_active", "SMs"),
    ("dram_active", "memory bus"),
)


def hardware(page: TextPage, contents: RunContents) -> None:
    """Utilisation, memory, health and slow days."""
    lines = [
        *(_used(contents) or efficiency.gpu_lines(contents)),
        *efficiency.cpu_lines(contents),
        *_memory(contents),
        *efficiency.memory_lines(contents),
        *efficiency.energy_lines(contents),
        *_health(contents),
        *_slow(contents),
        *slowness.lines(contents.stragglers, contents.stalls),
    ]
    if not lines:
        return
    page.heading("Its hardware")
    for label, text in lines:
        page.fact(label, text)


def _used(contents: RunContents) -> list[tuple[str, str]]:
    row = contents.activity
    if row is None or not row["observed_s"]:
        return []
    half = row["observed_s"] / 2
    means = [
        f"{word} {texts.share(row[name])}" for name, word in _USED if row[name] is not None and row[f"{name}_s"] > half
    ]
    power = [f"{row['power_w']:,.0f} W each"] if row["power_w"] is not None else []
    idle = (
        [f"idle {texts.hours(row['idle_s'], 'GPU-h')} ({texts.share(row['idle_share'])})"]
        if row["idle_s"] is not None
        else []
    )
    seen = "" if row["coverage"] is None else f"observed {texts.share(min(1.0, row['coverage']))} of the time"
    return [("Utilisation", ", ".join([*means, *power])), ("", "; ".join([*idle, seen] if seen else idle))]


def _memory(contents: RunContents) -> list[tuple[str, str]]:
    lines = []
    row = contents.memory
    if row is not None:
        lines.append(
            ("GPU memory", f"{texts.size(row['mean_bytes'])} in use on average, {texts.size(row['max_bytes'])} at most")
        )
    rows = [] if contents.choice.logged_only else components(contents)
    held, nodes = sum(row["alloc_mem_bytes"] or 0 for row in rows), sum(row["n_nodes"] for row in rows)
    if held and nodes:
        each = f" ({texts.size(held / nodes)} a node)" if nodes > 1 else ""
        lines.append(("Memory", f"{texts.size(held)} held{each}{_node_memory(contents)}"))
    return lines


def _node_memory(contents: RunContents) -> str:
    row = contents.node_memory
    return "" if row is None else f"; {texts.size(row['used_bytes'])} in use on a node, on average"


def _health(contents: RunContents) -> list[tuple[str, str]]:
    rows = [row for row in contents.health if row["severity"] != "info"]
    lines = [("Health" if not at else "", _incident(row)) for at, row in enumerate(rows[:_INCIDENTS])]
    if len(rows) > _INCIDENTS:
        lines.append(("", f"{len(rows) - _INCIDENTS:,} more incidents on its nodes"))
    return lines


def _incident(row: Row) -> str:
    end = "; it may have ended an attempt" if row["at_end"] else ""
    what = f"{texts.name(row['node'])}: {texts.name(row['kinds'])} ({row['severity']})"
    return f"{minute(row['started_at'])}  {what}{end}"


def _slow(contents: RunContents) -> list[tuple[str, str]]:
    return [
        ("Slow steps" if not at else "", _slow_day(contents, row))
        for at, row in enumerate(worth(contents.slow)[:_SLOW])
    ]


def worth(rows: list[Row]) -> list[Row]:
    """Days of which slow steps took a hundredth of the training or more."""
    return [row for row in rows if row["productive_gpu_s"] and row["slow_gpu_s"] / row["productive_gpu_s"] >= 0.01]


def _slow_day(contents: RunContents, row: Row) -> str:
    """A slow day; the node that is suspected is one that reported an incident on it."""
    share = texts.share(row["slow_gpu_s"] / row["productive_gpu_s"])
    suspects = list(dict.fromkeys(texts.name(each["node"]) for each in contents.health if _on(each, row)))
    suspect = f"; suspected: {', '.join(suspects[:3])} (health events)" if suspects else ""
    cost = texts.hours(row["slow_gpu_s"], "GPU-h")
    return f"{row['day']}: {cost}, {share} of that day's training{suspect}"


def _on(incident: dict[str, Any], day: Row) -> bool:
    if incident["severity"] == "info":
        return False
    return bool(incident["started_at"].date() <= day["day"] <= incident["ended_at"].date())
