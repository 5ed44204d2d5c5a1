"""Boards and rules as objects of Kubernetes: what is in them is what is in the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from dashboards.build import OBJECTS, RULES, boards, build

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 1 << 20
"""Of an object, in etcd."""


@pytest.mark.slow
def test_config_maps_hold_the_boards_for_the_sidecar(tmp_path: Path) -> None:
    build(tmp_path)
    found = list(yaml.safe_load_all((tmp_path / OBJECTS[0]).read_text()))
    assert [each["metadata"]["name"] for each in found] == [f"trackside-{name}" for name in boards()]
    for name, each in zip(boards(), found, strict=True):
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert each["data"] == {f"trackside-{name}.json": (tmp_path / "boards" / f"{name}.json").read_text()}
        assert len(yaml.safe_dump(each)) < MAX_BYTES


@pytest.mark.slow
def test_rule_objects_hold_the_rules_of_the_files(tmp_path: Path) -> None:
    build(tmp_path)
    found = list(yaml.safe_load_all((tmp_path / OBJECTS[1]).read_text()))
    assert {each["kind"] for each in found} == {"PrometheusRule"}
    assert [each["spec"] for each in found] == [yaml.safe_load((tmp_path / name).read_text()) for name in RULES]
