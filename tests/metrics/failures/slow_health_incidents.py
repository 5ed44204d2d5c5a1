"""Incidents the slow and obvious way: every event against every attempt, in plain Python."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from metrics import frames

if TYPE_CHECKING:
    import polars as pl

RANKS = {"critical": 0, "warning": 1, "info": 2}
BEFORE, AFTER, TOGETHER = timedelta(minutes=10), timedelta(minutes=5), timedelta(minutes=15)


def incidents(
    events: pl.DataFrame, attempts: pl.DataFrame, attempt_nodes: pl.DataFrame
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of both tables, in any order."""
    groups: list[list[dict[str, Any]]] = []
    for event in sorted(events.iter_rows(named=True), key=lambda row: (row["cluster"], row["node"], row["ts"])):
        last = groups[-1][-1] if groups else None
        same = last is not None and (last["cluster"], last["node"]) == (event["cluster"], event["node"])
        if same and last is not None and event["ts"] - last["ts"] <= TOGETHER:
            groups[-1].append(event)
        else:
            groups.append([event])
    ends = {_key(row): row for row in attempts.iter_rows(named=True)}
    result, touched = [], []
    for group in groups:
        mine = [row for row in (_touch(group, held, ends) for held in attempt_nodes.iter_rows(named=True)) if row]
        touched += mine
        result.append(_incident(group) | {"n_attempts": len(mine)})
    return result, touched


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in frames.ATTEMPT_KEY)


def _rank(event: dict[str, Any]) -> int:
    return RANKS.get(event["severity"], 2)


def _worst(group: list[dict[str, Any]]) -> str:
    return list(RANKS)[min(map(_rank, group))]


def _incident(group: list[dict[str, Any]]) -> dict[str, Any]:
    kinds = sorted({(min(_rank(e) for e in group if _name(e) == name), name) for name in map(_name, group)})
    actions = {e["action"] for e in group if _rank(e) == min(map(_rank, group)) and e["action"] is not None}
    return {
        "cluster": group[0]["cluster"],
        "node": group[0]["node"],
        "started_at": group[0]["ts"],
        "ended_at": group[-1]["ts"],
        "severity": _worst(group),
        "n_events": len(group),
        "kinds": ", ".join(name for _, name in kinds),
        "gpus": ",".join(sorted({e["gpu"] for e in group if e["gpu"]})),
        "action": "; ".join(sorted(actions)) or None,
    }


def _name(event: dict[str, Any]) -> str:
    return f"{event['kind']} {event['code']}"


def _touch(
    group: list[dict[str, Any]], held: dict[str, Any], ends: dict[tuple[Any, ...], Any]
) -> dict[str, Any] | None:
    place = (group[0]["cluster"], group[0]["node"])
    if (held["cluster"], held["node"]) != place or _key(held) not in ends:
        return None
    ran = ends[_key(held)]
    after = timedelta(0) if ran["state"] == "CANCELLED" and ran["cancelled_by"] is not None else AFTER
    while_held = [
        event
        for event in group
        if held["started_at"] <= event["ts"] and (held["ended_at"] is None or event["ts"] <= held["ended_at"] + after)
    ]
    if not while_held:
        return None
    end = ran["ended_at"]
    return {name: held[name] for name in (*frames.ATTEMPT_KEY, "node")} | {
        "started_at": group[0]["ts"],
        "n_events": len(while_held),
        "severity": _worst(while_held),
        "at_end": end is not None and any(end - BEFORE <= event["ts"] <= end + after for event in while_held),
    }
