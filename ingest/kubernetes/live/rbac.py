"""The role that reading live needs."""

from __future__ import annotations

from importlib import resources


def rbac_manifest() -> str:
    """A service account that may list and watch what is read, and nothing else, as a manifest."""
    return (resources.files("ingest") / "kubernetes" / "rbac.yaml").read_text(encoding="utf-8")
