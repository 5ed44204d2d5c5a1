"""The request of a load and its transport: columns of `loads` that every loader fills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from ingest.files.input import STDIN

if TYPE_CHECKING:
    from datetime import datetime

Transport: TypeAlias = Literal["file", "stdin", "command", "rest", "remote_read", "export", "json"]
"""Transports of rows: from a file or standard input, from Slurm's commands or slurmrestd, from a Prometheus server by
remote read, by VictoriaMetrics' export or as queries in JSON."""


@dataclass(frozen=True)
class LoadRequest:
    """The request of a load, as stored in `loads`.

    Attributes:
        origin: name of the file, the command line, or the server's address with the selector.
        transport: transport of the rows.
        request: the request to a running Slurm, without its time.
        since: start of the requested time; None where no time was requested.
        until: end of that time.
        partial: others' jobs were hidden from us, so the load covers no time.
    """

    origin: str
    transport: Transport
    request: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    partial: bool = False


def from_file(name: str, since: datetime | None = None, until: datetime | None = None) -> LoadRequest:
    """The request for a file, or for standard input (`-`), with the time that the options name.

    >>> from_file("sacct.txt").transport, from_file("-").transport
    ('file', 'stdin')
    """
    return LoadRequest(name, "stdin" if name == STDIN else "file", since=since, until=until)
