"""The section [kubernetes] of the configuration."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from ingest.settings import SettingsSection


class Kubernetes(SettingsSection):
    """How the API server of Kubernetes is read live."""

    kubeconfig: Path | None = Field(default=None, description="kubeconfig; the reader needs list and watch only")
    context: str | None = Field(default=None, description="its context; default: the current one")
    in_cluster: bool = Field(
        default=False, description="read with the service account of the pod that Trackside runs in"
    )
    timeout_s: float = Field(default=30.0, gt=0, description="seconds that an answer may take")
    retries: int = Field(default=3, ge=0, le=20, description="tries after the first one")
    page: int = Field(default=500, ge=1, le=100_000, description="objects of a page of a list")
    replay_s: float = Field(
        default=5.0, ge=1, le=600, description="seconds for events since the last reading, before the list that ends it"
    )

    @property
    def is_set(self) -> bool:
        """Whether an API server is configured."""
        return self.in_cluster or self.kubeconfig is not None
