"""The clusters of a fleet, and the processes that bring them up to date."""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from app.config import place
from ingest.settings import SettingsSection

_SCHEDULER = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):\d{1,5}")


def scheduler_address(text: str) -> str:
    """The address of a Dask scheduler; empty: none.

    >>> scheduler_address("tls://scheduler.example.org:8786")
    'tls://scheduler.example.org:8786'
    """
    if text and not _SCHEDULER.fullmatch(text):
        message = "not the address of a Dask scheduler; write it like tls://scheduler.example.org:8786"
        raise ValueError(message)
    return text


class FleetSettings(SettingsSection):
    """The clusters that `trackside fleet` brings up to date, and the Dask scheduler and TLS files for its workers."""

    clusters: tuple[str, ...] = Field(
        default=(), description="configuration files, one for each cluster with a directory of its own: file patterns"
    )
    lake: Path | None = Field(
        default=None, description="lake into which each is committed; a cluster's own `[serve] lake` beats it"
    )
    lake_files: str | None = Field(
        default=None, description="where the files of a new lake are to be stored: a folder, or s3://BUCKET/..."
    )
    workers: int = Field(
        default=0, ge=0, le=1024, description="worker processes on this machine; 0: none, one cluster after another"
    )
    scheduler: Annotated[str, AfterValidator(scheduler_address)] = Field(
        default="", description="Dask scheduler whose workers do it, such as tls://scheduler.example.org:8786"
    )
    tls_ca: Path | None = Field(
        default=None, description="TLS between scheduler, workers and us: certificate of the signing authority (PEM)"
    )
    tls_cert: Path | None = Field(default=None, description="our certificate, signed by the authority of `tls_ca`")
    tls_key: Path | None = Field(default=None, description="key of `tls_cert`")

    @model_validator(mode="after")
    def _is_whole(self) -> FleetSettings:
        given = [each is not None for each in (self.tls_ca, self.tls_cert, self.tls_key)]
        if any(given) and not all(given):
            message = "tls_ca, tls_cert and tls_key belong together"
            raise ValueError(message)
        if self.workers and self.scheduler:
            message = "workers and scheduler exclude each other"
            raise ValueError(message)
        return self

    def beside(self, folder: Path) -> FleetSettings:
        """The same with files relative to a folder."""
        files = {name: getattr(self, name) for name in ("lake", "tls_ca", "tls_cert", "tls_key")}
        whole = {name: None if file is None else folder / file.expanduser() for name, file in files.items()}
        patterns = tuple(str(Path(glob.escape(str(folder)), pattern)) for pattern in self.clusters)
        update = {**whole, "clusters": patterns, "lake_files": place.beside(folder, self.lake_files)}
        return self.model_copy(update=update)
