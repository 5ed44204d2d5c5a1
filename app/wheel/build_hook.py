"""A step of `hatchling build`: the module `trackside` goes to the top of the wheel.

Hatchling's own `force-include` would also copy it into site-packages at an editable install, where the copy would hide
the file in the checkout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelHook(BuildHookInterface[Any]):
    """Adds `trackside/` to a wheel; an editable install has it by a path (`dev-mode-dirs`)."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects the files."""
        if version == "standard":
            build_data["force_include"][str(Path(self.root) / "app/wheel/trackside")] = "trackside"
