"""The topology board: what fits where? Blocks and racks, what is idle, out of service and spanned in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana, palette
from dashboards.exported_metrics import MAX_BLOCKS
from dashboards.grafana import fixed, instant, override, ranged, rows, steps
from dashboards.numbers import known_now, stat
from dashboards.parts import BAD, CANNOT_TELL, GOOD, HISTORY, MIDDLING, PLAIN, board, chosen, exported, window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

UID: Final = "trackside-topology"

UNPLACED: Final = "no place of nodes is known"
_COUNT: Final[dict[str, Any]] = {"unit": "locale", "decimals": 0, "min": 0, "no_value": UNPLACED}
_RATIO: Final[dict[str, Any]] = {"unit": "percentunit", "decimals": 1, "min": 0, "max": 1, "no_value": CANNOT_TELL}
_IN_BLOCK: Final = 'block=~"$block"'


def nodes(state: str) -> str:
    """Nodes of the chosen blocks in a state."""
    return exported("block_nodes", but=_IN_BLOCK, state=state)


def topology(_: Mapping[str, tuple[float, ...]]) -> Json:
    """The board as JSON. No claim is on a number of it."""
    return board(
        "Trackside: topology",
        UID,
        "What fits where? Blocks and racks, what is idle, out of service and spanned in each.",
        tags=("nodes", "slurm", "topology"),
        variables=[
            chosen("cluster", "Cluster", "trackside_block_nodes"),
            window(),
            chosen("block", "Block", 'trackside_block_nodes{cluster=~"$cluster"}'),
        ],
        panels=[
            grafana.row("Room"),
            *_room(),
            *_segments(),
            grafana.row("Blocks"),
            *_blocks(),
            grafana.row("Placement"),
            *_placement(),
        ],
        since="now-7d",
    )


def _room() -> list[Any]:
    idle, out = (f"sum by (cluster) ({nodes(state)})" for state in ("idle", "unavailable"))
    largest = f"max by (cluster) ({nodes('idle')})"
    return [
        stat(
            "Idle nodes",
            "Nodes in service that no job holds at the end of the data. Which and since when: trackside show nodes.",
            [ranged(known_now(idle), "{{cluster}}")],
            size=(6, 4),
            color=fixed(PLAIN),
            **_COUNT,
        ),
        stat(
            "Most idle nodes in one block",
            "Nodes of the largest job that could start within one block.",
            [ranged(known_now(largest), "{{cluster}}")],
            size=(6, 4),
            color=fixed(PLAIN),
            **_COUNT,
        ),
        stat(
            "Nodes out of service",
            "Nodes that are down, drained or in maintenance. Why: trackside show lifecycle.",
            [ranged(known_now(out), "{{cluster}}")],
            size=(6, 4),
            thresholds=steps(GOOD, (1, MIDDLING), (8, BAD)),
            **_COUNT,
        ),
        stat(
            "Attempts in the least blocks",
            "Of the attempts on several nodes whose places are known, the share that lay in the least number of blocks "
            "that would do. Low: the scheduler has no topology configured, or blocks are in pieces.",
            [ranged(_least(), "{{cluster}}")],
            size=(6, 4),
            color=fixed(PLAIN),
            **_RATIO,
        ),
    ]


def _least() -> str:
    least, more = (exported("spanned_attempts", placement=placement) for placement in ("least", "more"))
    return f"{least} / (({least} + {more}) > 0)"


def _segments() -> list[Any]:
    idle, whole = (exported("idle_segments", what=what) for what in ("idle", "whole"))
    columns = {"idle segments": idle, "with all nodes idle": whole, "share": f"{idle} / ({whole} > 0)"}
    return [
        grafana.table(
            "Idle segments, by nodes of a segment",
            "How many segments of so many nodes within one block idle nodes make, and how many all nodes would: the "
            "jobs with --segment that could start now. Far fewer at the large sizes: blocks are in pieces.",
            [rows(expr) for expr in columns.values()],
            size=(10, 9),
            transformations=grafana.lines_of(columns, "cluster", "nodes"),
            options={"sortBy": [{"displayName": "with all nodes idle", "desc": True}]},
            overrides=[override("share", **{**_RATIO, "no_value": None})],
            **_COUNT,
        ),
        grafana.time_series(
            "Idle segments over time, by nodes of a segment",
            f"Segments that idle nodes make, as of each moment. {HISTORY}",
            [ranged(idle, "{{cluster}} {{nodes}} nodes")],
            size=(14, 9),
            **_COUNT,
        ),
    ]


def _blocks() -> list[Any]:
    by = "cluster, block"
    columns = {
        "nodes": f"sum by ({by}) ({exported('block_nodes', but=_IN_BLOCK)})",
        "allocated": nodes("allocated"),
        "idle": nodes("idle"),
        "out of service": nodes("unavailable"),
        "jobs": f"sum by ({by}) ({exported('block_jobs', but=_IN_BLOCK)})",
        "of these across blocks": exported("block_jobs", but=_IN_BLOCK, reach="across"),
    }
    states = {"allocated": "productive", "idle": "no_demand", "unavailable": "down"}
    return [
        grafana.table(
            "Blocks",
            "One line a block (leaf switch, rack), at the end of the data: what is in it, and the jobs that hold "
            f"nodes of it; at most {MAX_BLOCKS}, those with most nodes.",
            [rows(expr) for expr in columns.values()],
            size=(14, 10),
            transformations=grafana.lines_of(columns, "cluster", "block"),
            options={"sortBy": [{"displayName": "idle", "desc": True}]},
            **_COUNT,
        ),
        grafana.bar_gauge(
            "Idle nodes, by block",
            "Nodes that no job holds: the twenty blocks with most.",
            [instant(f"sort_desc(topk(20, {nodes('idle')} > 0))", "{{cluster}} {{block}}")],
            size=(5, 10),
            color=fixed(palette.swatch("no_demand").colour),
            **{**_COUNT, "no_value": "none idle"},
        ),
        grafana.bar_gauge(
            "Nodes out of service, by block",
            "Nodes that are down, drained or in maintenance. Several in one block: its switch, rack or power.",
            [instant(f"sort_desc(topk(20, {nodes('unavailable')} > 0))", "{{cluster}} {{block}}")],
            size=(5, 10),
            color=fixed(palette.swatch("down").colour),
            **{**_COUNT, "no_value": "none"},
        ),
        grafana.time_series(
            "Nodes by state",
            f"Nodes of the chosen blocks, as of each moment. {HISTORY}",
            [ranged(f"sum by (state) ({exported('block_nodes', but=_IN_BLOCK)})", "{{state}}")],
            size=(12, 8),
            custom={"fillOpacity": 70, "lineWidth": 0, "stacking": {"group": "A", "mode": "normal"}},
            overrides=[override(state, color=fixed(palette.swatch(name).colour)) for state, name in states.items()],
            **_COUNT,
        ),
        grafana.time_series(
            "Jobs that span blocks",
            f"Jobs that hold nodes of several blocks, counted once in each of them. {HISTORY}",
            [ranged(f"sum by (cluster) ({exported('block_jobs', but=_IN_BLOCK, reach='across')})", "{{cluster}}")],
            size=(12, 8),
            **_COUNT,
        ),
    ]


def _placement() -> list[Any]:
    attempts = exported("spanned_attempts")
    return [
        grafana.bar_gauge(
            "Attempts, by placement",
            "Attempts on several nodes that began in the chosen window: in the least number of blocks that would do, "
            "in more, or with nodes whose place is unknown. What spanning goes with: trackside show placement.",
            [instant(f"sum by (placement) ({attempts})", "{{placement}}")],
            size=(10, 7),
            color=fixed(palette.swatch("other_work").colour),
            **{**_COUNT, "no_value": "no attempt on several nodes"},
        ),
        grafana.time_series(
            "Share in the least blocks, over time",
            f"As above, of the chosen window, as of each moment. {HISTORY}",
            [ranged(_least(), "{{cluster}}")],
            size=(14, 7),
            **_RATIO,
        ),
    ]


BOARD = topology
