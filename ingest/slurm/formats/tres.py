"""TRES and GRES: the GPUs, CPUs, memory and nodes that Slurm writes in one text, as columns of a text column."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import polars as pl

from ingest.mig import gpus_of
from ingest.slurm.formats.values import UNITS, UNSET, by_distinct
from ingest.tables import GPUS, Schema


class Tres(NamedTuple):
    """The values of a TRES text: GPUs and their model, CPUs, memory, nodes.

    Without a gres/gpu entry the GPUs are null: none were held, or AccountingStorageTRES does not record them.
    `parts`: there are parts of GPUs (shard, mps), of which accounting does not record how many GPUs they are.
    """

    gpus: float | None
    model: str | None
    cpus: int | None
    memory_bytes: int | None
    nodes: int | None
    error: str | None = None
    parts: bool = False


TRES_SCHEMA: Final[Schema] = {
    "gpus": GPUS,
    "model": pl.String(),
    "cpus": pl.Int64(),
    "memory_bytes": pl.Int64(),
    "nodes": pl.Int64(),
    "error": pl.String(),
    "parts": pl.Boolean(),
}


def tres_columns(text: pl.Series) -> pl.DataFrame:
    """Columns as in :class:`Tres`, read by :func:`read_tres`."""
    return by_distinct(text, read_tres, TRES_SCHEMA)


def read_tres(text: str) -> Tres:
    """GPUs and more from a TRES text.

    `gres/gpu` counts all GPUs; `gres/gpu:TYPE` gives the kind and is the same GPUs again, so the larger of the two
    counts: sites list either or both in AccountingStorageTRES. A slice of a GPU (MIG) counts as the part of a GPU that
    it is (`ingest.mig`), if its type is listed; else it looks like a whole one, neither here nor
    in the node's own TRES. `gres/gpumem`, `gres/gpuutil` and `gres/shard` are no GPUs.

    >>> read_tres("cpu=64,gres/gpu:h100=8,gres/gpu=8,mem=2G,node=1")[:2]
    (8.0, 'h100')
    >>> read_tres("gres/gpu:a100=2,gres/gpu:h100=1")[:2]
    (3.0, 'a100+h100')
    >>> read_tres("gres/gpu:a100_1g.5gb=14,gres/gpu=14")[:2]
    (2.0, 'a100_1g.5gb')
    >>> read_tres("cpu=64,node=1").gpus is None, read_tres("cpu=64,gres/gpu=0").gpus
    (True, 0.0)
    >>> read_tres("cpu=abc").error
    "TRES item 'cpu=abc'"
    """
    plain: dict[str, str] = {}
    for item in filter(None, text.strip().split(",")):
        name, equals, value = item.partition("=")
        if not equals or not value or not name.strip():
            return Tres(None, None, None, None, None, f"TRES item {item[:80]!r}")
        plain[name.strip()] = value.strip()
    try:
        return _tres_of(plain)
    except ValueError as error:
        return Tres(None, None, None, None, None, f"TRES item {str(error)[:80]!r}")


_TRES_GPU = re.compile(r"(?:gres[/:])?gpu(?::(.*))?", re.IGNORECASE)
_TRES_PART = re.compile(r"(?:gres[/:])?(?:shard|mps)(?::.*)?", re.IGNORECASE)


def _tres_of(items: dict[str, str]) -> Tres:
    untyped, kinds, any_gpu = 0.0, dict[str, float](), False
    for name, value in items.items():
        if gpu := _TRES_GPU.fullmatch(name):
            any_gpu = True
            count = _tres_number(name, value)
            if gpu[1]:
                kinds[gpu[1]] = kinds.get(gpu[1], 0.0) + count
            else:
                untyped = max(untyped, count)
    listed = sum(kinds.values())
    gpus = gpus_of(kinds) + max(0.0, untyped - listed)
    if max(untyped, listed) >= 1e9:
        message = f"gres/gpu={items.get('gres/gpu', listed)}"
        raise ValueError(message)
    lower = {name.lower(): value for name, value in items.items()}
    return Tres(
        gpus=gpus if any_gpu else None,
        model="+".join(sorted(kind for kind, count in kinds.items() if count)) or None,
        cpus=_count(lower, "cpu"),
        memory_bytes=_tres_memory(lower.get("mem")),
        nodes=_count(lower, "node"),
        parts=any(map(_TRES_PART.fullmatch, items)),
    )


def _count(items: dict[str, str], name: str) -> int | None:
    value = items.get(name)
    return None if value is None or value in UNSET else int(_tres_number(name, value))


def _tres_number(name: str, value: str) -> float:
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)([KMGTPE]?)", value, re.ASCII | re.IGNORECASE)
    number = float(match[1]) * 1024 ** UNITS[match[2].upper()] if match else float("inf")
    if number >= 2**63:
        message = f"{name}={value}"
        raise ValueError(message)
    return number


def _tres_memory(value: str | None) -> int | None:
    """Memory in a TRES; a bare number means MB there, too, and a mark for "not set" stays null."""
    if value is None or value.rstrip("M") in UNSET:
        return None
    number = _tres_number("mem", value)
    return int(number * 1024**2) if value[-1:].isdigit() else int(number)


_GRES_ITEM = re.compile(r"(?:^|,)\s*(?:gres[:/])?([A-Za-z_]\w*)((?::|=)[^,(]*|)(\([^)]*\)[^,]*|)")
_GRES_TYPE_NULL = re.compile(r"\(null\)")


def read_gres(text: str) -> tuple[float, str | None]:
    """GPUs and their model from a node's or an old job's GRES text; other resources (shard, mps) are no GPUs.

    Slices count as in :func:`read_tres`.

    >>> read_gres("gpu:NVlink_A100_40GB:2(IDX:0,3)")
    (2.0, 'NVlink_A100_40GB')
    >>> read_gres("gpu:h100:1,shard:h100:2")
    (1.0, 'h100')
    >>> read_gres("gpu:a100_1g.5gb:14(S:0-1)")
    (2.0, 'a100_1g.5gb')
    >>> read_gres("gpu:(null):0(IDX:N/A)")
    (0.0, None)

    Raises:
        ValueError: A GPU entry without a readable count; it may have been cut by a narrow column.
    """
    plain = _GRES_TYPE_NULL.sub("", text.strip())
    whole, kinds = 0.0, dict[str, float]()
    for name, rest, _ in _GRES_ITEM.findall(plain):
        if name.lower() != "gpu":
            continue
        *kind, count = re.split("[:=]", rest)[1:] or ["1"]
        if not re.fullmatch(r"\d{1,6}", count, re.ASCII):
            message = f"GRES {text[:80]!r}"
            raise ValueError(message)
        if any(kind):
            model = ":".join(filter(None, kind))
            kinds[model] = kinds.get(model, 0.0) + int(count)
        else:
            whole += int(count)
    return whole + gpus_of(kinds), "+".join(sorted(model for model, n in kinds.items() if n)) or None


def gres_columns(text: pl.Series) -> pl.DataFrame:
    """Columns `gpus`, `model` and `error`, read by :func:`read_gres`."""
    return by_distinct(text, _try_gres, {"gpus": GPUS, "model": pl.String(), "error": pl.String()})


def _try_gres(text: str) -> tuple[float | None, str | None, str | None]:
    try:
        return (*read_gres(text), None)
    except ValueError as error:
        return None, None, str(error)


def gres_as_tres(text: pl.Series) -> pl.DataFrame:
    """The columns of :func:`tres_columns` from GRES, which holds GPUs only: the others are null."""
    others = {name: dtype for name, dtype in TRES_SCHEMA.items() if dtype == pl.Int64}
    return gres_columns(text).with_columns(
        *(pl.lit(None, dtype).alias(name) for name, dtype in others.items()), parts=pl.lit(value=False)
    )
