"""FLOP per token of sessions, from the model that their logs describe: `metrics.mfu.flops` over columns.

A formula that needs what a log lacks gives null: an honest "cannot tell". Null in any column makes it null, so
the formulas are written plainly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from metrics.mfu.flops import ATTENTION, FULL_RECOMPUTE

if TYPE_CHECKING:
    from metrics.mfu.flops import Convention, Measure


def flops_per_token_expr(convention: Convention, measure: Measure = "mfu") -> pl.Expr:
    """FLOP per token of a row with the columns of `frames.MODEL`; null where they do not determine it.

    FLOP that the log states itself count under the convention that it names, and under `stated`. Those that it names
    `executed` are no model FLOP.

    Source: Chowdhery et al., PaLM (2022), appendix B.
    """
    named = pl.col("flop_convention")
    stated_flops = _positive("flops_per_token")
    executed = pl.when(named == "executed").then(stated_flops)
    if convention == "executed":
        return pl.coalesce(executed, _computed("palm_full", recompute=_FULL)) if measure == "hfu" else _NONE
    if convention == "stated":
        needed = pl.when(named.ne_missing("executed")).then(stated_flops)
        return needed if measure == "mfu" else pl.coalesce(executed, pl.when(~_FULL).then(needed))
    stated = pl.when(named == convention).then(stated_flops)
    if measure == "mfu":
        return pl.coalesce(stated, _computed(convention, recompute=pl.lit(value=False)))
    # All that PaLM's forms count is computed again; of Megatron's, the logits are not.
    again = _passes(_FULL) if convention in ATTENTION else pl.when(~_FULL).then(1.0)
    if convention == "megatron_legacy":
        return pl.coalesce(stated * again, _megatron(causal=False, recompute=_FULL, selective=_SELECTIVE))
    return pl.coalesce(stated * again, _computed(convention, recompute=_FULL))


_NEVER = pl.lit(value=False)
_NONE = pl.lit(None, dtype=pl.Float64)
_FULL = pl.col("recompute").replace_strict({"none": False, "full": True}, default=None, return_dtype=pl.Boolean)
"""Whether all activations are computed again. The word `selective` does not define what is computed again, but for
Megatron: the attention core."""

_SELECTIVE = (pl.col("recompute") == "selective").fill_null(value=False)


def _passes(recompute: pl.Expr) -> pl.Expr:
    """Ratio of executed FLOP to those needed; null where it is unknown whether anything is computed again."""
    return pl.when(recompute).then(FULL_RECOMPUTE).when(~recompute).then(1.0)


def _computed(convention: Convention, *, recompute: pl.Expr) -> pl.Expr:
    if convention.startswith("megatron"):
        return _megatron(causal=convention == "megatron_causal", recompute=recompute)
    if convention == "torchtitan":
        return (6 * _matmul_params() + 12 * _square()) * _passes(recompute)
    needed = 6 * active_params_expr()
    if ATTENTION[convention]:
        needed = needed + ATTENTION[convention] * _square()
    return needed * _passes(recompute)


def active_params_expr() -> pl.Expr:
    """Parameters active per token: as logged; of a mixture of experts without the experts not chosen; else all.

    Where the parameters of the experts are not logged, those of all routed experts follow from their sizes: `2 h f` (a
    gated MLP: `3 h f`) each.
    """
    size = pl.coalesce(_positive("expert_ffn_hidden"), _positive("ffn_hidden"))
    layers = pl.coalesce(_positive("expert_layers"), _positive("layers"))
    matrices = pl.when("gated").then(3).when(~pl.col("gated")).then(2)
    from_sizes = layers.cast(pl.Float64) * pl.col("experts") * matrices * _positive("hidden") * size
    experts = pl.coalesce(_positive("expert_params"), from_sizes)
    share = pl.when(pl.col("top_k").is_between(1, pl.col("experts"))).then(pl.col("top_k") / pl.col("experts"))
    total = _positive("params")
    routed = total - experts * (1 - share)
    return pl.coalesce(_positive("params_active"), pl.when(_has_experts()).then(_above_zero(routed)).otherwise(total))


def _has_experts() -> pl.Expr:
    return (pl.col("experts") > 1).fill_null(value=False)


def _matmul_params() -> pl.Expr:
    """Active parameters without the input embedding, which is a look-up; one tied to the output is multiplied by."""
    embedding = _positive("vocab").cast(pl.Float64) * _positive("hidden")
    return active_params_expr() - pl.when("tied").then(0.0).when(~pl.col("tied")).then(embedding)


def _square() -> pl.Expr:
    """`L H Q T`, over the layers with full attention."""
    layers = pl.coalesce("attention_layers", "layers").cast(pl.Float64)
    return layers * pl.col("heads") * _head_dim() * pl.col("seq_len")


def _head_dim() -> pl.Expr:
    return pl.coalesce(_positive("head_dim"), _positive("hidden") / _positive("heads"))


def _megatron(*, causal: bool, recompute: pl.Expr, selective: pl.Expr = _NEVER) -> pl.Expr:
    """Megatron-LM's count (tests/metrics/oracles/flops.py); null for hybrid models: their other layers are unknown.

    With selective recomputation the attention core is counted once more: `s/3h` in place of `s/6h` (Korthikanti et al.,
    arXiv 2205.05198, appendix A).
    """
    layers, hidden = _positive("layers").cast(pl.Float64), _positive("hidden").cast(pl.Float64)
    whole = pl.when(pl.col("attention_layers").is_null() | (pl.col("attention_layers") == pl.col("layers"))).then(1.0)
    square = pl.col("seq_len") / hidden / (2 if causal else 1) * pl.when(selective).then(2.0).otherwise(1.0)
    wide = pl.col("heads") * _head_dim() / hidden
    attention = wide * (1 + _positive("kv_heads") / _positive("heads") + square)
    routed = pl.when(_has_experts()).then(pl.coalesce(_positive("expert_layers"), "layers")).otherwise(0)
    per_token = pl.col("top_k") + pl.col("shared_experts").fill_null(0)
    expert = pl.coalesce(_positive("expert_ffn_hidden"), _positive("ffn_hidden")) * per_token
    dense = _positive("ffn_hidden") * (layers - routed)
    mixed = pl.when(routed == layers).then(expert * routed).otherwise(dense + expert * routed)
    width = pl.when(routed == 0).then(dense).otherwise(mixed) / layers
    gate = pl.when("gated").then(1.5).when(~pl.col("gated")).then(1.0)
    logits = _positive("vocab") / (2 * layers * hidden)
    passes = pl.when(selective).then(1.0).otherwise(_passes(recompute))
    terms = (attention + width / hidden * gate) * passes + logits
    return whole * 12 * layers * hidden**2 * terms


def _positive(name: str) -> pl.Expr:
    return _above_zero(pl.col(name))


def _above_zero(value: pl.Expr) -> pl.Expr:
    return pl.when(value > 0).then(value)
