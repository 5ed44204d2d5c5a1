"""The fabric board: do InfiniBand, RoCE, NVLink and the network filesystems carry the load of the jobs?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana
from dashboards.boards.node import here
from dashboards.grafana import fixed, override, ranged, steps
from dashboards.hardware import filesystems, network, table_of_nodes
from dashboards.numbers import COURSE, most
from dashboards.parts import BAD, GOOD, MIDDLING, PLAIN, UNSEEN, board, chosen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

UID: Final = "trackside-fabric"

SLOW_S: Final = (0.1, 1.0)
"""Mean response of a network filesystem from which data loading suffers, and from which jobs stall."""

_LINE: Final[dict[str, Any]] = {"min": 0, "size": (6, 7), "no_value": UNSEEN}
ACTIVE: Final = 4
"""State of an InfiniBand port that carries data."""


def of(name: str) -> str:
    """A series of the chosen nodes."""
    return here(f"trackside:node:{name}")


def fabric(_: Mapping[str, tuple[float, ...]]) -> Json:
    """The board as JSON. No claim is on a number of it."""
    known = "trackside:node:gpus"
    return board(
        "Trackside: fabric and filesystems",
        UID,
        "Do InfiniBand, RoCE, NVLink and the network filesystems carry the load of the jobs?",
        tags=("filesystems", "infiniband", "network"),
        variables=[
            chosen("cluster", "Cluster", known),
            chosen("node", "Node", f'{known}{{cluster=~"$cluster"}}'),
        ],
        panels=[
            grafana.row("Now"),
            *_now(),
            grafana.row("InfiniBand"),
            *network(here),
            grafana.row("RoCE, Ethernet and NVLink"),
            *_ethernet(),
            *_nvlink(),
            grafana.row("Filesystems"),
            *filesystems(here),
            grafana.row("Nodes"),
            _nodes(),
        ],
    )


def _now() -> list[Any]:
    stat = partial(grafana.stat, size=(6, 4), min=0, no_value=UNSEEN, options=COURSE)
    response = f"sum by (cluster) ({of('fs_response_s_per_s')}) / sum by (cluster) ({of('fs_operations_per_s')})"
    return [
        stat(
            "InfiniBand ports not active",
            "Ports whose state is not active, as /sys/class/infiniband has it: they carry nothing. A port without a "
            "cable counts, too; check those that were active before.",
            [ranged(f"sum by (cluster) ({of('ib_state')} != bool {ACTIVE})", "{{cluster}}")],
            thresholds=steps(GOOD, (1, BAD)),
            unit="locale",
            decimals=0,
        ),
        stat(
            "InfiniBand, all ports",
            "Bytes per second that all ports receive: most of it are collectives.",
            [ranged(f"sum by (cluster) ({of('ib_received_bytes_per_s')})", "{{cluster}}")],
            color=fixed(PLAIN),
            unit="Bps",
            decimals=1,
        ),
        stat(
            "Filesystem operations",
            "Operations per second on network filesystems, of all nodes.",
            [ranged(f"sum by (cluster) ({of('fs_operations_per_s')})", "{{cluster}}")],
            color=fixed(PLAIN),
            unit="ops",
            decimals=1,
        ),
        stat(
            "Filesystem response",
            "Mean time from the request of an operation to its answer, over all nodes. Slow: the servers, or one "
            "client with too many requests; the panels below name the nodes.",
            [ranged(response, "{{cluster}}")],
            thresholds=steps(GOOD, (SLOW_S[0], MIDDLING), (SLOW_S[1], BAD)),
            unit="s",
            decimals=3,
        ),
    ]


def _ethernet() -> list[Any]:
    return [
        grafana.time_series(
            "Ethernet and RoCE throughput",
            "Bytes per second of all interfaces that are no virtual ones. RoCE that bypasses the kernel is counted "
            "by the port's RDMA counters, which node_exporter has under InfiniBand, above.",
            [ranged(f"sum ({of(f'net_{way}_bytes_per_s')})", way) for way in ("received", "transmitted")],
            unit="Bps",
            decimals=1,
            **_LINE,
        ),
        grafana.time_series(
            "Ethernet errors and drops, by node",
            "Packets per second that were dropped or bad, of the five nodes with most. RoCE needs a network without "
            "loss: any drop there makes collectives wait.",
            [
                ranged(
                    most(5, f"sum by (cluster, node) ({of(f'net_receive_{what}_per_s')})"),
                    f"{{{{cluster}}}} {{{{node}}}} {what}",
                )
                for what in ("drops", "errors")
            ],
            unit="pps",
            decimals=2,
            **_LINE,
        ),
    ]


def _nvlink() -> list[Any]:
    return [
        grafana.time_series(
            "NVLink throughput",
            "Bytes per second over NVLink, of all GPUs: DCGM's profiling fields, which must be switched on.",
            [ranged(f"sum ({of(f'nvlink_{way}_bytes_per_s')})", way) for way in ("received", "transmitted")],
            unit="Bps",
            decimals=1,
            **_LINE,
        ),
        grafana.time_series(
            "NVLink CRC errors, by GPU",
            "Errors per second of the five GPUs with most. Those that come again and again need the link's repair: "
            "XID 74 follows.",
            [ranged(most(5, of("nvlink_crc_errors_per_s")), "{{cluster}} {{node}} GPU {{device}}")],
            unit="short",
            decimals=3,
            **_LINE,
        ),
    ]


def _nodes() -> Any:
    by = "sum by (cluster, node)"
    return table_of_nodes(
        "Nodes by load on the fabric",
        "One line a node, that with most filesystem operations first: one far above the others is a data loader that "
        "is at fault, or a restore of a checkpoint. An empty cell: no exporter reports it.",
        {
            "IB received": f"{by} ({of('ib_received_bytes_per_s')})",
            "IB waiting": f"{by} ({of('ib_transmit_wait_per_s')})",
            "IB errors": f"{by} ({of('ib_receive_errors_per_s')}) + {by} ({of('ib_symbol_errors_per_s')})",
            "fs operations": f"{by} ({of('fs_operations_per_s')})",
            "fs response": f"{by} ({of('fs_response_s_per_s')}) / {by} ({of('fs_operations_per_s')})",
        },
        first=("fs operations", True),
        overrides=[
            override("IB received", unit="Bps"),
            override("IB errors", decimals=2),
            override("fs operations", unit="ops"),
            override("fs response", unit="s", decimals=3),
        ],
        unit="short",
        decimals=1,
        size=(24, 10),
    )


BOARD = fabric
