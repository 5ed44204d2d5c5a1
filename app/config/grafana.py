"""Grafana's address, and the tables that it reads besides Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from ingest.http_address import is_open_address, without_secrets
from ingest.settings import SettingsSection


def _address(url: str) -> str:
    if not is_open_address(url):
        raise ValueError("write http://HOST:PORT or https://HOST/PATH, without a password")
    return without_secrets(url)


class GrafanaSettings(SettingsSection):
    """Grafana, beside the explorer."""

    url: Annotated[str, AfterValidator(_address)] | None = Field(
        default=None, description="address at which people reach Grafana: pages of the explorer link to its boards"
    )
    parquet: Path | None = Field(
        default=None, description="folder in which `serve` publishes tables for the SQL boards after each computation"
    )
