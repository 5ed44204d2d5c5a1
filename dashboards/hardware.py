"""Panels of what GPUs, networks and filesystems of some nodes do: shared by the boards of a job and of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana
from dashboards.grafana import override, ranged, rows
from dashboards.numbers import most
from dashboards.parts import NODE_LINKS, UNSEEN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Scope = Callable[[str], str]
    """From the name of a series to PromQL for those of the nodes that are meant."""

ENDS: Final = ("max", "avg", "min")
_LINE: Final[dict[str, Any]] = {"size": (8, 7), "min": 0, "no_value": UNSEEN}
_RATIO: Final[dict[str, Any]] = {**_LINE, "unit": "percentunit", "decimals": 1, "max": 1}


def gpus(scope: Scope) -> list[Any]:
    """Activity, clocks, power, temperature and memory: over all GPUs, the highest, the mean and the lowest."""
    active = f"({scope('trackside:gpu:gr_engine_active')} or {scope('trackside:gpu:gpu_util')})"
    spread = "The highest, the mean and the lowest GPU."
    return [
        grafana.time_series(
            "GPU activity",
            f"Share of the time in which the graphics engine, or else any kernel, was active. {spread} A lowest "
            "GPU that stays at 0 hangs or is not used.",
            _ends(active),
            **_RATIO,
        ),
        grafana.time_series(
            "Tensor cores active",
            f"Share of the cycles in which the tensor pipes were active. {spread}",
            _ends(scope("trackside:gpu:tensor_active")),
            **_RATIO,
        ),
        grafana.time_series(
            "SM clock",
            f"Clock of the multiprocessors. {spread} A lowest one apart from the mean is throttled, and all "
            "ranks wait for it: trackside show anomalies.",
            _ends(scope("trackside:gpu:sm_clock_hz")),
            unit="hertz",
            decimals=2,
            **_LINE,
        ),
        grafana.time_series(
            "Power",
            f"Power of a GPU. {spread}",
            _ends(scope("trackside:gpu:power_w")),
            unit="watt",
            decimals=0,
            **_LINE,
        ),
        grafana.time_series(
            "Temperature",
            f"Temperature of a GPU. {spread}",
            _ends(scope("trackside:gpu:temperature_c")),
            unit="celsius",
            decimals=0,
            **_LINE,
        ),
        grafana.time_series(
            "Memory used",
            f"Memory of a GPU that is used. {spread}",
            _ends(scope("trackside:gpu:memory_used_bytes")),
            unit="bytes",
            decimals=1,
            **_LINE,
        ),
    ]


def _ends(expr: str) -> list[Any]:
    return [ranged(f"{how} ({expr})", how) for how in ENDS]


def network(scope: Scope) -> list[Any]:
    """InfiniBand: what goes through, and what goes wrong."""
    return [
        grafana.time_series(
            "InfiniBand throughput",
            "Bytes per second of all ports together.",
            [
                ranged(f"sum ({scope(f'trackside:node:ib_{way}_bytes_per_s')})", way)
                for way in ("received", "transmitted")
            ],
            unit="Bps",
            decimals=1,
            **_LINE,
        ),
        grafana.time_series(
            "InfiniBand: waiting and errors",
            "Per second and node, the five highest: errors in receiving and symbols, and ticks in which data waited "
            "for a buffer (congestion).",
            [
                ranged(
                    most(5, f"sum by (cluster, node) ({scope(f'trackside:node:ib_{what}_per_s')})"),
                    f"{{{{cluster}}}} {{{{node}}}} {what}",
                )
                for what in ("receive_errors", "symbol_errors", "transmit_wait")
            ],
            unit="short",
            decimals=2,
            **_LINE,
        ),
        grafana.time_series(
            "InfiniBand: links that went down",
            "How often ports went down within ten minutes: the five that did so most, by node and port.",
            [
                ranged(
                    most(5, f"600 * avg_over_time(({scope('trackside:node:ib_link_downed_per_s')})[10m:1m])"),
                    "{{cluster}} {{node}} {{device}}",
                )
            ],
            unit="short",
            decimals=0,
            **_LINE,
        ),
    ]


def filesystems(scope: Scope) -> list[Any]:
    """Network filesystems: operations by kind, bytes, response."""
    operations = [
        ranged(f"sum ({scope(f'trackside:node:fs_{kind}_operations_per_s')})", kind)
        for kind in ("read", "write", "metadata")
    ]
    response, count = (scope(f"trackside:node:fs_{each}") for each in ("response_s_per_s", "operations_per_s"))
    return [
        grafana.time_series(
            "Filesystem operations, by kind",
            "Operations per second on network filesystems.",
            operations,
            unit="ops",
            decimals=1,
            **_LINE,
        ),
        grafana.time_series(
            "Filesystem throughput",
            "Bytes per second read from and written to network filesystems. Peaks of what is written are checkpoints.",
            [ranged(f"sum ({scope(f'trackside:node:fs_{way}_bytes_per_s')})", way) for way in ("read", "written")],
            unit="Bps",
            decimals=1,
            **_LINE,
        ),
        grafana.time_series(
            "Filesystem response, by node",
            "Mean time from the request of an operation to its answer, of the five slowest nodes.",
            [
                ranged(
                    most(5, f"sum by (cluster, node) ({response}) / sum by (cluster, node) ({count})"),
                    "{{cluster}} {{node}}",
                )
            ],
            unit="s",
            decimals=3,
            **_LINE,
        ),
    ]


def by_node(scope: Scope) -> Any:
    """One line a node: which one is different from the others."""
    return table_of_nodes(
        "Nodes",
        "One line a node: the one that is different from the others is what the others wait for. The last XID stays "
        "until the driver is loaded anew; an empty cell is unknown, or no XID.",
        {
            "GPUs": f"max by (cluster, node) ({scope('trackside:node:gpus')})",
            "busy GPUs": f"max by (cluster, node) ({scope('trackside:node:busy_gpus')})",
            "tensor": f"avg by (cluster, node) ({scope('trackside:gpu:tensor_active')})",
            "lowest clock": f"min by (cluster, node) ({scope('trackside:gpu:sm_clock_hz')})",
            "highest temperature": f"max by (cluster, node) ({scope('trackside:gpu:temperature_c')})",
            "last XID": f"max by (cluster, node) ({scope('trackside:gpu:last_xid')})",
        },
        first=("lowest clock", False),
        overrides=[
            override("busy GPUs", decimals=2),
            override("tensor", unit="percentunit", decimals=1, max=1),
            override("lowest clock", unit="hertz", decimals=2),
            override("highest temperature", unit="celsius"),
        ],
        unit="locale",
        decimals=0,
        size=(24, 9),
    )


def table_of_nodes(
    title: str,
    description: str,
    columns: Mapping[str, str],
    *,
    first: tuple[str, bool],
    overrides: Sequence[grafana.Json],
    **look: Any,
) -> Any:
    """A table with a line a node, whose name leads to its board.

    Args:
        title: of the panel.
        description: of the panel.
        columns: PromQL by name of the column; each with the labels cluster and node.
        first: the column that decides which node comes first, and whether the one with most does.
        overrides: what is different in single columns.
        look: unit, decimals, size.
    """
    column, descending = first
    return grafana.table(
        title,
        description,
        [rows(expr) for expr in columns.values()],
        min=0,
        no_value=UNSEEN,
        options={"sortBy": [{"displayName": column, "desc": descending}]},
        transformations=grafana.lines_of(columns, "cluster", "node"),
        overrides=[override("node", links=list(NODE_LINKS)), *overrides],
        **look,
    )
