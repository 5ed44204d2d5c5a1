"""FLOP that a transformer's training needs for one token, by each convention that publications count by.

The convention changes the figure by more than a tenth, so it is part of the value. FLOP, never tera. Each is counted
as *model* FLOP (MFU) or, with `recompute`, as *executed* FLOP (HFU): full activation checkpointing runs the forward
pass of every layer once more, so forward and backward cost 4 passes instead of 3.

Sources, by the short names used below:
    PaLM: Chowdhery et al., arXiv 2204.02311, appendix B.
    Megatron: Narayanan et al., arXiv 2104.04473, and Megatron-LM's own count.
    torchtitan: pytorch/torchtitan, models/utils.py.
    ml-engineering: stas00/ml-engineering, training/performance.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Convention: TypeAlias = Literal[
    "palm_full", "causal_half", "6N_only", "megatron_legacy", "megatron_causal", "torchtitan", "executed", "stated"
]

CONVENTIONS: tuple[Convention, ...] = (
    "palm_full",
    "causal_half",
    "6N_only",
    "megatron_legacy",
    "megatron_causal",
    "torchtitan",
    "executed",
    "stated",
)
"""All but the last are computed from the run log, where it has enough. `executed` is what was executed,
recomputation included (HFU): what the log states, else palm_full's. `stated` takes whatever the log states."""

Measure: TypeAlias = Literal["mfu", "hfu"]

MEASURES: tuple[Measure, ...] = ("mfu", "hfu")
"""mfu: FLOP that the model needs. hfu: FLOP executed, with what was computed again to save memory."""

FULL_RECOMPUTE = 4 / 3
"""Passes with full activation checkpointing (forward, forward again, backward twice as long) over those without."""

ATTENTION: dict[str, int] = {"palm_full": 12, "causal_half": 6, "6N_only": 0}
"""FLOP per layer, head, head dimension and token of the sequence that a convention gives attention."""
