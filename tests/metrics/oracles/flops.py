"""FLOP per token of one model, as publications count them: oracles of `metrics.mfu.session_flops`.

Sources, by the short names used below:
    Megatron: Narayanan et al., arXiv 2104.04473, and Megatron-LM's own count.
    torchtitan: pytorch/torchtitan, models/utils.py.
    omnistat: ROCm/omnistat, omnistat/inspect/compute.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrics.mfu.flops import ATTENTION, FULL_RECOMPUTE

if TYPE_CHECKING:
    from metrics.mfu.flops import Convention


def mfu(tokens_per_s: float, flops_per_token: float, peak_flops: float) -> float:
    """Model FLOP utilisation: `tokens_per_s * flops_per_token / peak_flops`; the peak is that of all GPUs together.

    PaLM 540B on 6144 TPU v4, attention left out:

    >>> round(mfu(238.3e3, 6 * 540.35e9, 6144 * 275e12), 4)
    0.4573
    """
    return tokens_per_s * flops_per_token / peak_flops


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


def megatron_flops_per_token(
    *,
    layers: int,
    hidden: int,
    ffn_hidden: int,
    heads: int,
    kv_heads: int,
    seq_len: int,
    vocab: int,
    gated: bool = True,
    causal: bool = False,
    head_dim: int | None = None,
    top_k: int = 1,
    shared_experts: int = 0,
    expert_ffn_hidden: int | None = None,
    expert_layers: int | None = None,
    recompute: bool = False,
) -> float:
    """FLOP per token as Megatron-LM counts them.

    `12 L h^2 (1 + g/a + s/h + (f/h) topk k + V/(2 L h))`, k = 1.5 for a gated MLP and 1 otherwise; with `causal` the
    newer `s/(2h)`. For GPT (f = 4h, g = a) it is `72 L h^2 (1 + s/(6h) + V/(12 L h))`, and with `recompute` the
    original paper's `96 L h^2 (1 + s/(6h) + V/(16 L h))`: logits are not computed again (Megatron).

    Args:
        layers: L.
        hidden: h.
        ffn_hidden: f, of layers without experts.
        heads: a.
        kv_heads: g.
        seq_len: s.
        vocab: V.
        gated: the MLP has a gate (SwiGLU).
        causal: only the half of attention that the mask leaves.
        head_dim: size of a head, if it is not h / a.
        top_k: routed experts that a token is sent to.
        shared_experts: experts that every token goes through.
        expert_ffn_hidden: size of an expert, if it is not f.
        expert_layers: layers with experts, if those are not all.
        recompute: with full activation checkpointing: executed FLOP.

    >>> megatron_flops_per_token(layers=32, hidden=4096, ffn_hidden=14336, heads=32, kv_heads=8, seq_len=8192,
    ...                          vocab=128256)
    57912852480.0
    """
    wide = 1.0 if head_dim is None else head_dim * heads / hidden
    attention = wide * (1 + kv_heads / heads + seq_len / hidden / (2 if causal else 1))
    routed = layers if expert_layers is None else expert_layers
    expert = ffn_hidden if expert_ffn_hidden is None else expert_ffn_hidden
    width = ((layers - routed) * ffn_hidden + routed * (top_k + shared_experts) * expert) / layers
    mlp = width / hidden * (1.5 if gated else 1.0)
    logits = vocab / (2 * layers * hidden)
    passes = FULL_RECOMPUTE if recompute else 1.0
    return 12 * layers * hidden**2 * ((attention + mlp) * passes + logits)


def torchtitan_flops_per_token(
    *, matmul_params: float, layers: int, heads: int, qk_head_dim: int, v_head_dim: int, seq_len: int
) -> float:
    """FLOP per token as torchtitan counts them: `6 N_matmul + 6 L H (d_qk + d_v) T`.

    N_matmul leaves out the input embedding unless it is tied to the output. Layers are those with full attention;
    the causal mask is not credited.

    Llama-3-8B at a sequence of 8192:

    >>> n = llama_params(hidden=4096, layers=32, ffn_hidden=14336, heads=32, kv_heads=8, vocab=128256) - 128256 * 4096
    >>> torchtitan_flops_per_token(matmul_params=n, layers=32, heads=32, qk_head_dim=128, v_head_dim=128, seq_len=8192)
    57914449920
    """
    return 6 * matmul_params + 6 * layers * heads * (qk_head_dim + v_head_dim) * seq_len


def llama_params(
    *,
    hidden: int,
    layers: int,
    ffn_hidden: int,
    heads: int,
    kv_heads: int,
    vocab: int,
    head_dim: int | None = None,
    tied: bool = False,
) -> int:
    """Parameters of a dense model of Llama's kind: gated MLP, grouped-query attention, RMS norms, no biases.

    >>> llama_params(hidden=4096, layers=32, ffn_hidden=14336, heads=32, kv_heads=8, vocab=128256)
    8030261248
    """
    size = hidden // heads if head_dim is None else head_dim
    attention = 2 * hidden * heads * size + 2 * hidden * kv_heads * size
    layer = attention + 3 * hidden * ffn_hidden + 2 * hidden
    return layers * layer + hidden + vocab * hidden * (1 if tied else 2)


def active_params(params: float, *, expert_params: float, experts: int, top_k: int) -> float:
    """Parameters that one token passes through in a mixture of experts: all but the routed experts not chosen.

    `params - expert_params (1 - top_k / experts)`; shared experts and the router are always active (torchtitan counts
    so).

    Args:
        params: of the whole model.
        expert_params: of all routed experts of all layers together.
        experts: routed experts of a layer.
        top_k: those that a token is sent to.

    >>> active_params(100.0, expert_params=80.0, experts=8, top_k=2)
    40.0
    """
    return params - expert_params * (1 - top_k / experts)


def amd_executed_flops(*, add: float, mul: float, trans: float, fma: float, mfma_mops: float) -> float:
    """FLOP that an AMD GPU executed, from counters: `64 (ADD + MUL + TRANS + 2 FMA) + 512 MFMA_MOPS` (omnistat).

    Vector instructions work on 64 lanes, and a fused multiply-add is two operations. Matrix instructions are counted
    in units of 512 operations.

    Args:
        add: vector additions (SQ_INSTS_VALU_ADD_F16, _F32 or _F64).
        mul: vector multiplications.
        trans: vector transcendentals.
        fma: vector fused multiply-adds.
        mfma_mops: matrix operations (SQ_INSTS_VALU_MFMA_MOPS_BF16, _F16, ...).

    >>> amd_executed_flops(add=1, mul=2, trans=3, fma=4, mfma_mops=5)
    3456
    """
    return 64 * (add + mul + trans + 2 * fma) + 512 * mfma_mops
