"""What axe-core finds that keeps anybody out, light, dark and on the phone: test_every_page.py asks it of each page."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from tests.app.explorer.conftest import Site
    from tests.lab.browser import Browser

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

GRAVE = ("serious", "critical")

CONTRAST = "color-contrast"
"""The dearest rule by far; its findings follow from colours alone."""

OF_LAYOUT = [
    "aria-hidden-focus", "button-name", "link-name", "nested-interactive", "scrollable-region-focusable", "target-size",
]  # fmt: skip
"""Rules that can find something in another layout of the same page."""

Mode: TypeAlias = tuple[int, int, bool, dict[str, Any]]

MODES: dict[str, Mode] = {
    "light": (1280, 900, False, {}),
    "dark": (1280, 900, True, {"runOnly": [CONTRAST]}),
    "phone": (390, 844, False, {"runOnly": OF_LAYOUT}),
}
"""Width, height, whether it is dark, and which rules can find something that the modes before did not."""

WITHOUT_CONTRAST: dict[str, Mode] = {
    "light": (1280, 900, False, {"rules": {CONTRAST: {"enabled": False}}}),
    "phone": MODES["phone"],
}
"""For pages that have no colours but those of others."""


def axe() -> str:
    """The script, which axe-playwright-python ships; its driver is not installed."""
    spec = importlib.util.find_spec("axe_playwright_python")
    assert spec is not None
    assert spec.submodule_search_locations
    return (Path(spec.submodule_search_locations[0]) / "axe.min.js").read_text("utf-8")


def findings(chromium: Browser, rules: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Serious findings of the open page by some rules, else by all: rule, and the elements."""
    if not chromium.run("return Boolean(window.axe)"):
        chromium.run(axe())
    result = chromium.driver.execute_async_script(
        "const done = arguments[1];axe.run(document, arguments[0]).then((r) => done(JSON.stringify(r.violations)));",
        {"resultTypes": ["violations"]} | (rules or {}),
    )
    return [
        {"rule": each["id"], "elements": [node["html"][:200] for node in each["nodes"]][:5], "n": len(each["nodes"]),
         "why": each["nodes"][0]["failureSummary"][:300]}
        for each in json.loads(result)
        if each["impact"] in GRAVE
    ]  # fmt: skip


def serious_findings(chromium: Browser, modes: dict[str, Mode] = MODES) -> dict[str, list[dict[str, Any]]]:
    """Serious findings of the open page by mode, in the modes that have some; the page is left as on a phone."""
    found = {}
    for mode, (width, height, dark, rules) in modes.items():
        chromium.resize(width, height)
        chromium.prefer(dark=dark)
        scheme = "dark" if dark else "light"
        chromium.wait(f"html[data-mantine-color-scheme={scheme}]")
        chromium.run("document.getAnimations().forEach((each) => each.finish())")
        found[mode] = findings(chromium, rules)
    return {mode: each for mode, each in found.items() if each}


def test_axe_finds_what_is_wrong(site: Site, chromium: Browser) -> None:
    chromium.open(f"{site.url}/definitions", until="#content h1")
    chromium.run("document.querySelector('#content').insertAdjacentHTML('beforeend', '<button></button>')")
    assert [each["rule"] for each in findings(chromium)] == ["button-name"]


@pytest.mark.parametrize("mode", MODES)
def test_axe_finds_in_each_mode_what_is_its_own(mode: str, site: Site, chromium: Browser) -> None:
    """Pale text in light and dark; on the phone, what has no name there."""
    width, height, dark, rules = MODES[mode]
    chromium.open(f"{site.url}/definitions", until="#content h1")
    chromium.resize(width, height)
    chromium.prefer(dark=dark)
    grey = "#333" if dark else "#ddd"
    added = f"<p style='color:{grey};background:transparent'>pale</p><button></button>"
    chromium.run("document.querySelector('#content').insertAdjacentHTML('beforeend', arguments[0])", added)
    expected = {"light": [CONTRAST, "button-name"], "dark": [CONTRAST], "phone": ["button-name"]}[mode]
    assert sorted(each["rule"] for each in findings(chromium, rules)) == sorted(expected)
