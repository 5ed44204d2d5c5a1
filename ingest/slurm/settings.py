"""The section [slurm] of the configuration, and the settings of other sections that reading Slurm needs."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol, Self

from pydantic import Field, model_validator

from ingest.settings import SettingsSection


class Slurm(SettingsSection):
    """How Slurm is read."""

    lookback_days: float = Field(default=30.0, gt=0, description="first live ingest: how far back")
    window_days: float = Field(default=7.0, gt=0, description="accounting is requested in windows of this length")
    overlap_hours: float = Field(default=24.0, ge=0, description="later ingests go back this far behind the last one")
    steps: bool = Field(
        default=True, description="also request the steps of jobs: CPU time, memory and GPU use are recorded with these"
    )
    timeout_s: float = Field(default=300.0, gt=0, le=86_400, description="longest wait for one Slurm command")
    clusters: tuple[str, ...] = Field(default=(), description="clusters to query (-M); none: the one of this machine")
    retries: int = Field(
        default=3, ge=0, le=100, description="how often a failed request is retried, waiting longer each time"
    )
    retry_s: float = Field(default=2.0, ge=0, le=3_600, description="first wait before a retry; doubled each time")
    pause_s: float = Field(default=0.2, ge=0, le=3_600, description="pause between two windows of accounting")
    answer_mb: int = Field(default=256, gt=0, description="larger answers make the next windows half as long")
    recheck_jobs: int = Field(
        default=1000, ge=0, description="open jobs that windows miss: so many are requested by id"
    )
    transport: Literal["commands", "rest"] = Field(
        default="commands", description="how Slurm is queried: its commands on this machine, or slurmrestd"
    )
    rest_url: str | None = Field(default=None, description="slurmrestd: unix:/path/of/the.socket or http://HOST:PORT")
    rest_version: Annotated[str, Field(pattern=r"^0\.0\.\d{1,3}$")] | None = Field(
        default=None, description="version of slurmrestd's API, such as 0.0.41; detected by default"
    )
    rest_user: str | None = Field(default=None, description="user of the token (slurmrestd of 22.05 requires the name)")
    rest_token_env: str = Field(default="SLURM_JWT", description="environment variable that holds the token (JWT)")

    @model_validator(mode="after")
    def _transport_has_an_address(self) -> Self:
        """Slurmrestd needs an address and serves one cluster."""
        if self.transport == "rest" and not self.rest_url:
            message = "transport is rest, but rest_url, the address of slurmrestd, is missing"
            raise ValueError(message)
        if self.transport == "rest" and len(self.clusters) > 1:
            message = "transport is rest, and one slurmrestd serves one cluster; name one, or use the commands"
            raise ValueError(message)
        return self


class NodeRules(Protocol):
    """The rules for nodes in the section [rules]."""

    @property
    def planned_reasons(self) -> tuple[str, ...]:
        """Reasons of nodes (regular expressions) that mean planned work."""


class SlurmSettings(Protocol):
    """Settings that reading Slurm needs."""

    @property
    def cluster(self) -> str | None:
        """Cluster of inputs that do not name one."""

    @property
    def timezone(self) -> str | None:
        """Zone of times that carry none."""

    @property
    def slurm(self) -> Slurm:
        """How Slurm is read."""

    @property
    def rules(self) -> NodeRules:
        """Rules that node states depend on."""
