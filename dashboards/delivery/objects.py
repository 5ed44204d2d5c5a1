"""Boards and rules as objects of Kubernetes, and the DuckDB data source as Grafana provisions it.

The objects are what Grafana's sidecar and Prometheus' operator look for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

from dashboards.grafana import DUCKDB

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HEAD: Final = "# Written by `trackside dashboards build`. "

OF_BOARDS: Final = """\
Grafana's sidecar (Helm value sidecar.dashboards.enabled) loads each of
# these; where it watches other labels or folders than its defaults, change them here.
"""

OF_RULES: Final = """\
Prometheus' operator loads these; where its ruleSelector needs a label
# (kube-prometheus-stack: release), add it.
"""

LABELS: Final = {"app.kubernetes.io/name": "trackside"}

SIDECAR: Final = {"grafana_dashboard": "1"}
"""The label of the sidecar's default."""

FOLDER: Final = {"grafana_folder": "Trackside"}
"""The annotation that names a folder, where the sidecar has `folderAnnotation: grafana_folder`."""


def board_objects(boards: Mapping[str, str]) -> str:
    """A ConfigMap for each board: together they would pass the limit of an object, 1 MiB.

    Args:
        boards: the JSON of each, by name.

    Returns:
        A YAML stream.
    """
    return _stream(OF_BOARDS, (_config_map(name, text) for name, text in boards.items()))


def rule_objects(rules: Mapping[str, str]) -> str:
    """A PrometheusRule for each rule file.

    Args:
        rules: the YAML of each, by name.

    Returns:
        A YAML stream.
    """
    return _stream(OF_RULES, (_rule(name, yaml.safe_load(text)) for name, text in rules.items()))


OF_DUCKDB: Final = """\
A data source for the SQL boards. It needs the plugin
# motherduck-duckdb-datasource, and in Grafana's environment TRACKSIDE_PARQUET: the folder that
# `trackside dashboards publish` writes to.
"""


def duckdb(views: str) -> str:
    """Grafana's provisioning file of a DuckDB data source in memory.

    Args:
        views: SQL that each connection begins with.
    """
    source = {
        "name": "Trackside (Parquet)",
        "type": DUCKDB["type"],
        "access": "proxy",
        "jsonData": {"path": "", "initSql": views},
    }
    return _stream(OF_DUCKDB, [{"apiVersion": 1, "datasources": [source]}])


def _config_map(name: str, text: str) -> dict[str, Any]:
    metadata = {"name": f"trackside-{name}", "labels": LABELS | SIDECAR, "annotations": dict(FOLDER)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {f"trackside-{name}.json": text}}


def _rule(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": f"trackside-{name}", "labels": dict(LABELS)}
    return {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": metadata, "spec": spec}


class _Dumper(yaml.SafeDumper):
    """Writes texts of many lines as such."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _stream(comment: str, objects: Iterable[dict[str, Any]]) -> str:
    return HEAD + comment + yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
