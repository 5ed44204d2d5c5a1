"""Slices of GPUs (MIG) and AMD's partitions: the share of a GPU by the name of the type."""

from __future__ import annotations

import re
from typing import Final

_MIG: Final = re.compile(r"(?<![a-z0-9])(?:([1-7])c[._-]?)?([1-7])g[._-]?(\d{1,3})gb", re.IGNORECASE)

_MIG_PARTS: Final = {r"a30(?!\d)": 4, r"rtx.?pro.?6000": 4, r"rtx.?pro.?(5000|4500)": 2}
"""Slices of the models that have fewer than 7."""

_MIG_OF_FOUR: Final = {(1, 6), (2, 12), (4, 24), (2, 48), (4, 96)}
"""Slices and gigabytes of profiles of GPUs with 4 slices that no GPU with 7 has."""

AMD_PARTITION: Final = r"(?:[sdtqc]px)_nps[1248]"
"""Names of a GPU's partitions by AMD's device plugin: compute mode and memory mode."""

_PARTITION: Final = re.compile(rf"(?<![a-z0-9]){AMD_PARTITION}$", re.IGNORECASE)
_PARTITIONS: Final = {"s": 1, "d": 2, "t": 3, "q": 4, "c": 8}
"""Partitions of a GPU by the first letter of its compute mode."""

_SIX_DIES: Final = re.compile("mi300a", re.IGNORECASE)
"""The model that CPX divides into six."""


def share_of_a_gpu(kind: str) -> float:
    """Share of a GPU of this type: 1, or for a MIG slice its share of the GPU's compute slices.

    Partitions of AMD's GPUs are equal parts. CPX divides by the dies: an MI300X or a later one has 8, the MI300A has 6.
    A type that does not name the model is taken for one with 8.

    `3g.40gb` has 3 of 7, and where it has only some of its instance's compute (`1c.3g.40gb`), those. A few models have
    fewer slices than 7; where the type does not name the model, profiles that only these have identify it.

    Source: NVIDIA Multi-Instance GPU User Guide, supported GPUs and supported profiles; AMD Instinct, GPU partitioning.

    >>> share_of_a_gpu("h100"), share_of_a_gpu("nvidia_a100_3g.20gb") == 3 / 7, share_of_a_gpu("a30_1g.6gb")
    (1.0, True, 0.25)
    >>> share_of_a_gpu("cpx_nps4"), share_of_a_gpu("spx_nps1"), share_of_a_gpu("MI300A cpx_nps1") == 1 / 6
    (0.125, 1.0, True)
    """
    if partition := _PARTITION.search(kind):
        mode = partition[0][0].lower()
        return 1 / (6 if mode == "c" and _SIX_DIES.search(kind) else _PARTITIONS[mode])
    match = _MIG.search(kind)
    if match is None:
        return 1.0
    slices, memory = int(match[2]), int(match[3])
    named = next((parts for model, parts in _MIG_PARTS.items() if re.search(model, kind, re.IGNORECASE)), None)
    parts = named or (4 if (slices, memory) in _MIG_OF_FOUR else 7)
    return min(1.0, int(match[1] or slices) / parts)


def gpus_of(kinds: dict[str, float]) -> float:
    """GPUs of some types together, to a thousandth."""
    return round(sum(count * share_of_a_gpu(kind) for kind, count in kinds.items()), 3)
