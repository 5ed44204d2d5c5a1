"""The role required for live reading."""

from __future__ import annotations

from importlib import resources


def rbac_manifest() -> str:
    """Manifest of a service account that may only list and watch the kinds that are read."""
    return (resources.files("ingest") / "kubernetes" / "rbac.yaml").read_text(encoding="utf-8")
