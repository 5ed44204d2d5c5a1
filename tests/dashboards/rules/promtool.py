"""Rules on given series by `promtool test rules`: what is recorded, and which alerts fire when."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

Series = dict[str, str]
"""By series in PromQL's words: its values in promtool's notation (`1x10`, `0+5x60`)."""


def run(folder: Path, rules: Mapping[str, str], tests: Sequence[Mapping[str, Any]], *, every: str = "1m") -> None:
    """Have promtool evaluate tests over rule files, by name.

    Raises:
        AssertionError: with what promtool says.
    """
    for name, text in rules.items():
        (folder / name).write_text(text, encoding="utf-8")
    groups = [group["name"] for text in rules.values() for group in yaml.safe_load(text)["groups"]]
    content = {"rule_files": list(rules), "evaluation_interval": every, "tests": list(tests)}
    content["group_eval_order"] = groups  # else any: an alert may be evaluated before what it asks for is recorded
    (folder / "tests.yaml").write_text(yaml.safe_dump(content, sort_keys=False, width=10_000), encoding="utf-8")
    result = subprocess.run(
        ["promtool", "test", "rules", "tests.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def only(rules: str, names: Collection[str]) -> str:
    """A rule file with these rules alone: promtool evaluates all, at each step."""
    content = yaml.safe_load(rules)
    for group in content["groups"]:
        group["rules"] = [rule for rule in group["rules"] if (rule.get("record") or rule.get("alert")) in names]
    text: str = yaml.safe_dump(content, sort_keys=False, width=10_000)
    return text


def recorded(rules: str) -> list[str]:
    """Names of what a rule file records."""
    return [rule["record"] for group in yaml.safe_load(rules)["groups"] for rule in group["rules"]]


def inputs(series: Series) -> list[dict[str, str]]:
    """Input series as promtool wants them."""
    return [{"series": name, "values": values} for name, values in series.items()]
