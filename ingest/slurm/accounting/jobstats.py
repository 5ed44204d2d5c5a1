"""Summaries that jobstats leaves in the AdminComment of a job: `JS1:` and JSON, gzipped and in base64.

jobstats (Princeton University) writes one when a job ends, from its own Prometheus: of each node the memory and CPU
time, of each GPU the mean utilisation over the job and the most memory in use. `JS1:Short` and `JS1:None` mark jobs
without data. An unreadable summary leaves its job without one, and is counted by its reason.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import zlib
from collections import Counter
from typing import Any, Final

import msgspec
import polars as pl

from ingest.load_warnings import LoadWarning
from ingest.tables import JOB_SUMMARIES

PREFIX: Final = "JS1:"

EMPTY: Final = frozenset({"JS1:Short", "JS1:None"})
"""Written by jobstats for a job that was too short, or without data in Prometheus."""

MOST_TEXT: Final = 1 << 20
"""Characters of a comment: jobstats' own largest ones have about 5,000."""

MOST_JSON: Final = 1 << 23
"""Largest summary in bytes after unpacking: gzip can expand its input a thousand times."""

_GZIP: Final = 16 + zlib.MAX_WBITS


class DamagedError(ValueError):
    """A summary that cannot be read; its text is the reason."""


class _JobstatsSummary(msgspec.Struct, gc=False):
    nodes: dict[str, dict[str, Any]]
    total_time: float | None = None
    gpus: float | None = None


def job_summaries(comments: pl.Series) -> tuple[pl.DataFrame, list[LoadWarning]]:
    """The summaries among AdminComments, as `JOB_SUMMARIES`, and how many could not be read, by reason.

    Args:
        comments: texts as they are stored in `attempts`.
    """
    rows: list[tuple[object, ...]] = []
    damaged: Counter[str] = Counter()
    written = comments.filter(comments.str.contains(r"(?i)^JS\d+:").fill_null(value=False))
    for text, count in written.value_counts().sort(comments.name).rows():
        try:
            rows += [(digest(text), *node) for node in nodes_of(text)]
        except DamagedError as error:
            damaged[str(error)] += count
    warnings = [LoadWarning("job_summary_damaged", count, reason) for reason, count in sorted(damaged.items())]
    return pl.DataFrame(rows, schema=JOB_SUMMARIES, orient="row"), warnings


def digest(text: str) -> str:
    """The name of a comment in `job_summaries`: the MD5 of the text, as DuckDB's `md5` has it."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def nodes_of(text: str) -> list[tuple[object, ...]]:
    """The rows of a summary, without its digest; no rows for a job without data.

    >>> nodes_of("JS1:Short")
    []

    Raises:
        DamagedError: it cannot be read.
    """
    if text in EMPTY:
        return []
    summary = _decoded(text)
    run_s, gpus = _number(summary.total_time), _number(summary.gpus)
    held = None if gpus is None else int(gpus)
    return [(node, run_s, held, *_of_node(values)) for node, values in sorted(summary.nodes.items())]


def _decoded(text: str) -> _JobstatsSummary:
    if text.startswith(PREFIX.lower()):
        reason = "it is in lower case, which sacctmgr of old Slurm converts to"
        raise DamagedError(reason)
    if not text.startswith(PREFIX):
        reason = f"an unknown version, {text.partition(':')[0][:8]}"
        raise DamagedError(reason)
    if len(text) > MOST_TEXT:
        reason = f"longer than {MOST_TEXT:,} characters"
        raise DamagedError(reason)
    try:
        packed = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        reason = "no base64, or cut"
        raise DamagedError(reason) from None
    return _parsed(_unpacked(packed))


def _unpacked(packed: bytes) -> bytes:
    """The JSON, at most `MOST_JSON` bytes of it."""
    unpacking = zlib.decompressobj(_GZIP)
    try:
        data = unpacking.decompress(packed, MOST_JSON)
    except zlib.error:
        reason = "no gzip, or damaged"
        raise DamagedError(reason) from None
    if unpacking.eof:
        return data
    reason = f"it unpacks to more than {MOST_JSON >> 20} MiB" if unpacking.unconsumed_tail else "its gzip is cut"
    raise DamagedError(reason)


def _parsed(data: bytes) -> _JobstatsSummary:
    try:
        return msgspec.json.decode(data, type=_JobstatsSummary)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        reason = "no JSON of jobstats"
        raise DamagedError(reason) from None


def _of_node(values: dict[str, Any]) -> tuple[object, ...]:
    """The columns of a node, from `n_cpus` on."""
    busy = [share for share in map(_share, _by_gpu(values, "gpu_utilization").values()) if share is not None]
    used, total = _by_gpu(values, "gpu_used_memory"), _by_gpu(values, "gpu_total_memory")
    pairs = [(_number(used[gpu]), _number(total.get(gpu))) for gpu in sorted(used)]
    memory = [(mine, all_) for mine, all_ in pairs if mine is not None and all_]
    plain = ("cpus", "total_time", "total_memory", "used_memory")
    return (
        *(_number(values.get(name)) for name in plain),
        len(busy),
        math.fsum(busy) if busy else None,
        sum(share == 0 for share in busy) if busy else None,
        len(memory),
        math.fsum(mine for mine, _ in memory) if memory else None,
        math.fsum(all_ for _, all_ in memory) if memory else None,
    )


def _by_gpu(values: dict[str, Any], name: str) -> dict[str, Any]:
    parsed = values.get(name)
    return parsed if isinstance(parsed, dict) else {}


def _share(value: object) -> float | None:
    """A percentage as a ratio; null where it is none."""
    number = _number(value)
    return None if number is None or number > 100 else number / 100


def _number(value: object) -> float | None:
    """A finite, non-negative number; null for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = float(value) if abs(value) < 2.0**63 else math.inf
    return number if math.isfinite(number) and number >= 0 else None
