"""Events that boards mark on their time axes: incidents, nodes that went out of service, interruptions, verdicts.

An event's series has the time of the event as its value, so it is marked when it happened, however late it was known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dashboards.grafana import DATASOURCE
from dashboards.palette import CLASS_COLOURS

if TYPE_CHECKING:
    from dashboards.grafana import Json

OF_PROMETHEUS: Final = frozenset(("expr", "step", "tagKeys", "textFormat", "titleFormat", "useValueForTime"))
"""Keys that Grafana's Prometheus data source reads from an annotation. Grafana's schema, which is that of all data
sources, lacks them."""


def marks() -> Json:
    """The annotations of every board; drains are many and off at first."""
    return {
        "list": [
            _event("Incidents", "incident", "{{what}} on {{cluster}} {{node}}", CLASS_COLOURS["infrastructure"]),
            _event(
                "Interruptions",
                "interruption",
                "{{what}} interrupted by {{cluster}} {{node}}",
                CLASS_COLOURS["preemption"],
            ),
            _event(
                "Drains",
                "drain",
                "{{cluster}} {{node}} out of service: {{what}}",
                CLASS_COLOURS["planned"],
                enable=False,
            ),
            _annotation(
                "Verdicts",
                "(max by (cluster, claim) (changes("
                'trackside_verdict{cluster=~"$cluster", window="month"}[$__rate_interval])) > bool 0) == 1',
                "The verdict on {{claim}} changed",
                CLASS_COLOURS["user"],
            ),
        ]
    }


def _event(name: str, kind: str, title: str, color: str, *, enable: bool = True) -> Json:
    expr = f"1000 * max by (cluster, node, what, started_at) (trackside_event_timestamp_seconds{{{_of(kind)}}})"
    return _annotation(name, expr, title, color, enable=enable, useValueForTime=True)


def _of(kind: str) -> str:
    return f'cluster=~"$cluster", kind="{kind}"'


def _annotation(name: str, expr: str, title: str, color: str, *, enable: bool = True, **more: Any) -> Json:
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": enable,
        "hide": False,
        "iconColor": color,
        "expr": expr,
        "titleFormat": title,
        "textFormat": "{{cluster}}",
        "tagKeys": "cluster,node,claim",
        **more,
    }
