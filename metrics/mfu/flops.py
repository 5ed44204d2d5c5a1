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


def flops_per_token(
    convention: Convention,
    *,
    params: float,
    layers: int,
    heads: int,
    head_dim: int,
    seq_len: int,
    recompute: bool = False,
) -> float:
    """FLOP for one token by a convention that a few numbers of the model decide.

    - `palm_full`: `6 N + 12 L H Q T` (PaLM): forward and backward, attention over the full square
    - `causal_half`: `6 N + 6 L H Q T`: only the half of attention that a causal mask leaves
    - `6N_only`: `6 N`: no attention

    Args:
        convention: one of these three.
        params: N, the parameters active per token.
        layers: L, those with full attention.
        heads: H.
        head_dim: Q.
        seq_len: T.
        recompute: with full activation checkpointing: `8 N`, and 4/3 of attention (ml-engineering).

    Raises:
        ValueError: the convention needs more than these numbers.

    >>> flops_per_token("palm_full", params=124e6, layers=12, heads=12, head_dim=64, seq_len=1024)
    857246208.0
    """
    if convention not in ATTENTION:
        raise ValueError(f"{convention} cannot be worked out from these numbers; there are: {', '.join(ATTENTION)}")
    needed = 6 * params + ATTENTION[convention] * layers * heads * head_dim * seq_len
    return needed * FULL_RECOMPUTE if recompute else needed
