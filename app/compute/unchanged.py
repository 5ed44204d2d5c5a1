"""Whether a computation would repeat the last one: then nothing is computed, and no new version is published.

A computation depends on the rows of the warehouse, the rules, the claims, the requested period and the code. It does
not depend on the clock: the windows of its results end with the data, so only new coverage moves them.
"""

from __future__ import annotations

import functools
import hashlib
import os
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from app.compute.outcome import Computed, Days
from app.window import Window
from queries.reader import CheckResult

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from app.config.settings import Config
    from queries.warehouse import Writer

FACT: Final = "computed"
"""Fact of the warehouse: `inputs_digest` of the computation that made its data version."""

_PACKAGES: Final = ("app", "ingest", "metrics", "queries")
_ENGINES: Final = ("duckdb", "numpy", "polars", "scipy")
_CODE: Final = (".py", ".sql", ".toml")


def inputs_digest(settings: Config, *, since: datetime | None, until: datetime | None) -> str:
    """Digest of everything outside the warehouse that a computation and its verdicts depend on.

    Args:
        settings: rules, and the path of the claims file.
        since: beginning of the requested period.
        until: its end.
    """
    # The default claims are part of the code.
    claims = b"default" if settings.claims is None else b"file\0" + _content(settings.claims)
    parts = (code_digest(), settings.rules.model_dump_json().encode(), claims, f"{since}|{until}".encode())
    return hashlib.blake2b(b"\0".join(hashlib.sha256(part).digest() for part in parts), digest_size=16).hexdigest()


def last_outcome(writer: Writer, inputs: str) -> Computed | None:
    """The outcome that a computation would have, without the rows of failed checks.

    None if any of its inputs has changed since the last one.

    Args:
        writer: the warehouse.
        inputs: as `inputs_digest` returns it.
    """
    if writer.fact_of_version(FACT) != inputs:
        return None
    failed = [CheckResult(each.check, each.count, pl.DataFrame()) for each in writer.failed_checks()]
    done = Computed([], [], failed, [])
    for cluster in writer.query("clusters")["cluster"]:
        computed = writer.query("computed", cluster=cluster)
        if computed.is_empty():
            done.empty.append(cluster)
            continue
        done.clusters.append(Window(cluster, computed["since"].item(), computed["until"].item()))
        done.days.append(Days(0, writer.query("ledger_days", cluster=cluster).height))
    return done


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:  # the computation reports it
        return repr(error).encode()


@functools.cache
def code_digest() -> bytes:
    """Digest of our source files and of the versions of the engines: development versions have one number.

    It is made once a process. A process that runs for long calls it when it starts: files may be replaced later.
    """
    root = str(Path(__file__).parents[2])
    digest = hashlib.sha256()
    for file in sorted(file for package in _PACKAGES for file in _code_below(f"{root}{os.sep}{package}")):
        with open(file, "rb", buffering=0) as opened:  # noqa: PTH123 - as `_code_below`
            content = opened.read()
        digest.update(f"{file.removeprefix(root)}\0{len(content)}\0".encode())
        digest.update(content)
    for name in _ENGINES:
        digest.update(f"{name}\0{metadata.version(name)}\0".encode())
    return digest.digest()


def _code_below(folder: str) -> Iterator[str]:
    """The source files of a folder: as texts, for a path costs more than to read a file."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _code_below(entry.path)
            elif entry.name.endswith(_CODE):
                yield entry.path
