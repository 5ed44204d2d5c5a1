"""Why attempts ended, the slow and obvious way: every event against every attempt, in plain Python."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from metrics import frames

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

BEFORE, AFTER, SHOWN = timedelta(minutes=10), timedelta(minutes=5), 6
SEVERITY = {"critical": 0, "warning": 1}
REACTIONS = ("node_down", "node_drained", "prolog", "pod_terminated")
NO_CAUSE = ("INFO", "WARN", "CONSEQUENCE")
BY_ITSELF = {"NODE_FAIL": {"software", "hardware"}, "BOOT_FAIL": {"software", "hardware"}}
EXPLAINABLE = ("FAILED", "REQUEUED", "CANCELLED")
ANY = {"user", "software", "hardware"}
DOMAINS = {
    "HW": {"hardware"},
    "NETWORK": {"hardware"},
    "DRIVER": {"software", "hardware"},
    "FILESYSTEM": {"software", "hardware"},
    "NODE": {"software", "hardware"},
    "SOFTWARE": {"software"},
    "APP": {"user"},
}

Row = dict[str, Any]


def diagnoses(attempts: pl.DataFrame, attempt_nodes: pl.DataFrame, events: pl.DataFrame) -> dict[str, Row]:
    """By job id: what explains the end (kind, node), the domains and the events of each attempt. Ids are unique."""
    held: dict[str, list[str]] = {}
    for row in attempt_nodes.iter_rows(named=True):
        held.setdefault(row["job_id"], []).append(row["node"])
    reported = events.to_dicts()
    return {
        row["job_id"]: _diagnosis(row, [e for e in reported if _near(e, row, held.get(row["job_id"], []))])
        for row in attempts.iter_rows(named=True)
    }


def _near(event: Row, ended: Row, nodes: list[str]) -> bool:
    if event["node"] not in nodes or not -BEFORE <= event["ts"] - ended["ended_at"] <= AFTER:
        return False
    lasted = event["lasts_until"] is not None and event["lasts_until"] > ended["started_at"]
    return bool(lasted or event["ts"] >= ended["started_at"])


def _came_too_late(event: Row, ended: Row) -> bool:
    """What happened after somebody had cancelled the attempt."""
    by_person = ended["state"] == "CANCELLED" and ended["cancelled_by"] is not None
    return bool(by_person and event["ts"] > ended["ended_at"])


def _worst_first(ended: Row) -> Callable[[Row], tuple[Any, ...]]:
    def place(event: Row) -> tuple[Any, ...]:
        return (
            SEVERITY.get(event["severity"], 2),
            event["kind"] in REACTIONS,
            abs(event["ts"] - ended["ended_at"]),
            event["ts"],
            *((event[name] is None, event[name] or "") for name in ("node", "kind", "code", "gpu", "detail")),
        )

    return place


def _diagnosis(ended: Row, near: list[Row]) -> Row:
    state = ended["state"]
    near = sorted(near, key=_worst_first(ended))
    telling = [e for e in near if e["class"] not in NO_CAUSE and not _came_too_late(e, ended)]
    causes = [e for e in telling if e["severity"] == "critical"]
    causes = [e for e in causes if ended["failed_node"] in {None, e["node"]}]
    if state in BY_ITSELF:
        out = {e["node"] for e in causes if e["kind"] in REACTIONS}
        causes.sort(key=lambda e: e["node"] not in out)
    why = causes[0] if causes and state in (*EXPLAINABLE, *BY_ITSELF) else None
    hint = why or (telling[0] if telling and state in (*EXPLAINABLE, *BY_ITSELF) else None)
    return {
        "kind": why and why["kind"],
        "node": why and why["node"],
        "domains": _domains(BY_ITSELF.get(state, ANY), hint),
        "events": _in_words(near),
    }


def _domains(symptom: set[str], event: Row | None) -> set[str]:
    if event is None:
        return symptom
    not_program = event["kind"] == "xid" and event["code"] in {"32", "144", "150"}
    speaks_of = ANY - {"user"} if not_program else DOMAINS.get(event["class"], ANY)
    return symptom & speaks_of or speaks_of


def _in_words(near: list[Row]) -> str | None:
    words = []
    for event in near:
        name = f"{event['kind']} {event['code']}" if event["code"] else event["kind"]
        word = f"{name} ({event['node']}{' gpu ' + event['gpu'] if event['gpu'] else ''})"
        if word not in words:
            words.append(word)
    if not words:
        return None
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + more


def made_room_for(
    victim: Row, attempts: pl.DataFrame, joined: pl.DataFrame, attempt_nodes: pl.DataFrame, room: timedelta
) -> tuple[str, int] | None:
    """Run and number of the attempt that a preempted one made room for; None if nobody came."""
    requested = {_name(row): row for row in attempts.iter_rows(named=True)}
    runs = {_name(row): row for row in joined.iter_rows(named=True)}
    held = attempt_nodes.to_dicts()
    nodes = {row["node"] for row in held if _name(row) == _name(victim)}
    came: dict[tuple[str, int], dict[str, Any]] = {}
    for row in held:
        comer, run = requested[_name(row)], runs[_name(row)]
        late = row["started_at"] - victim["ended_at"]
        waited = comer["eligible_at"] or comer["submitted_at"]
        if row["node"] not in nodes or run["run_id"] == victim["run_id"]:
            continue
        if timedelta(0) <= late <= room and waited <= victim["ended_at"]:
            result = came.setdefault(
                (run["run_id"], run["attempt_no"]), {"nodes": set(), "at": row["started_at"], "gpus": 0}
            )
            result["nodes"].add(row["node"])
            result["at"] = min(result["at"], row["started_at"])
            result["gpus"] = max(result["gpus"], comer["milli_gpus"])
    order = sorted(came, key=lambda who: (-len(came[who]["nodes"]), came[who]["at"], -came[who]["gpus"], who))
    return order[0] if order else None


def _name(row: Row) -> tuple[Any, ...]:
    return tuple(row[each] for each in frames.ATTEMPT_KEY)
