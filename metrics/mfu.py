"""Model FLOP utilisation: FLOP that a model needs per token, and the ratio to the GPUs' peak over logged steps.

The convention by which FLOP are counted changes MFU by more than a tenth of its value, so every value carries it. Peaks
are dense ones (`metrics.peaks`). FLOP and FLOP/s, never tera.

Sources, by the short names used below:
    PaLM: Chowdhery et al., arXiv 2204.02311, appendix B.
    Megatron: Narayanan et al., arXiv 2104.04473, and Megatron-LM's own count.
    torchtitan: pytorch/torchtitan, models/utils.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import polars as pl

from metrics.peaks import check_peak, peak
from metrics.statistics import bootstrap_ratio_interval, ratio_of_sums

if TYPE_CHECKING:
    from collections.abc import Iterable

Convention: TypeAlias = Literal[
    "palm_full", "causal_half", "6N_only", "megatron_legacy", "megatron_causal", "executed", "stated"
]

CONVENTIONS: tuple[Convention, ...] = (
    "palm_full",
    "causal_half",
    "6N_only",
    "megatron_legacy",
    "megatron_causal",
    "executed",
    "stated",
)
"""The first three can be worked out from what a run log tells; the others only where it states FLOP per token itself.
`stated` takes whatever the log states."""


# --- FLOP per token ------------------------------------------------------------------------------------------------


def flops_per_token(
    convention: Convention, *, params: float, layers: int, heads: int, head_dim: int, seq_len: int
) -> float:
    """FLOP that training needs for one token, by a convention that a few numbers of the model decide.

    - `palm_full`: `6 N + 12 L H Q T` (PaLM): forward and backward, attention over the full square
    - `causal_half`: `6 N + 6 L H Q T`: only the half of attention that a causal mask leaves
    - `6N_only`: `6 N`: no attention

    Recomputed activations are in none of them: that would be HFU.

    Args:
        convention: one of these three.
        params: N, the parameters active per token.
        layers: L, those with attention.
        heads: H.
        head_dim: Q.
        seq_len: T.

    Raises:
        ValueError: the convention needs more than these numbers.

    >>> flops_per_token("palm_full", params=124e6, layers=12, heads=12, head_dim=64, seq_len=1024)
    857246208.0
    """
    if convention not in _ATTENTION:
        raise ValueError(f"{convention} cannot be worked out from these numbers; there are: {', '.join(_ATTENTION)}")
    return 6 * params + _ATTENTION[convention] * layers * heads * head_dim * seq_len


_ATTENTION: dict[str, int] = {"palm_full": 12, "causal_half": 6, "6N_only": 0}


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
    top_k: int = 1,
) -> float:
    """FLOP per token as Megatron-LM counts them.

    `12 L h^2 (1 + g/a + s/h + (f/h) topk k + V/(2 L h))`, k = 1.5 for a gated MLP and 1 otherwise; with `causal` the
    newer `s/(2h)`. For GPT (f = 4h, g = a) it is `72 L h^2 (1 + s/(6h) + V/(12 L h))` (Megatron).

    >>> megatron_flops_per_token(layers=32, hidden=4096, ffn_hidden=14336, heads=32, kv_heads=8, seq_len=8192,
    ...                          vocab=128256)
    57912852480.0
    """
    attention = seq_len / hidden / (2 if causal else 1)
    mlp = ffn_hidden / hidden * top_k * (1.5 if gated else 1.0)
    logits = vocab / (2 * layers * hidden)
    return 12 * layers * hidden**2 * (1 + kv_heads / heads + attention + mlp + logits)


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


# --- steps -----------------------------------------------------------------------------------------------------------


def mfu(tokens_per_s: float, flops_per_token: float, peak_flops: float) -> float:
    """Model FLOP utilisation: `tokens_per_s * flops_per_token / peak_flops`; the peak is that of all GPUs together.

    PaLM 540B on 6144 TPU v4, attention left out:

    >>> round(mfu(238.3e3, 6 * 540.35e9, 6144 * 275e12), 4)
    0.4573
    """
    return tokens_per_s * flops_per_token / peak_flops


def step_mfu(
    steps: pl.DataFrame, *, convention: Convention = "palm_full", peak_flops: float | None = None
) -> pl.DataFrame:
    """FLOP, peak FLOP and MFU of each step.

    - `flop` = tokens x FLOP per token by the convention
    - `peak_flop` = GPUs x dense peak x seconds from the step's beginning to that of the next
    - `mfu` = flop / peak_flop

    Each is null where anything it needs is missing: tokens, the model's sizes, a GPU or data type that the table does
    not know. FLOP per token that the log states count only under the convention that the log names (or `stated`).

    Args:
        steps: `tokens`, `wall_s`, `n_gpus`, `gpu_model`, `dtype`, `params_active`, `layers`, `heads`, `head_dim`,
            `seq_len`, `flops_per_token`, `flop_convention`, and any others.
        convention: how FLOP are counted.
        peak_flops: dense peak of one GPU in FLOP/s, instead of the table's.

    Returns:
        The same rows with these three columns.

    Raises:
        ValueError: there is no such convention, or `peak_flops` is a figure with sparsity.

    Source: PaLM; metric-definitions 6.1.
    """
    if convention not in CONVENTIONS:
        raise ValueError(f"there is no FLOP convention {convention!r}; there are: {', '.join(CONVENTIONS)}")
    peaks = _peaks(steps, peak_flops)
    flop = pl.col("tokens") * _flops_per_token(convention)
    whole = _positive("n_gpus") * pl.col("_peak") * _positive("wall_s")
    return (
        steps.join(peaks, on=["gpu_model", "dtype"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(flop=flop.cast(pl.Float64), peak_flop=whole.cast(pl.Float64))
        .with_columns(mfu=pl.col("flop") / pl.col("peak_flop"))
        .drop("_peak")
    )


def _positive(name: str) -> pl.Expr:
    return pl.when(pl.col(name) > 0).then(pl.col(name))


def _flops_per_token(convention: Convention) -> pl.Expr:
    """FLOP per token of a row, null where it cannot tell them."""
    named = pl.col("flop_convention").eq(convention).fill_null(value=False)
    stated = pl.when(named | pl.lit(convention == "stated")).then(_positive("flops_per_token"))
    if convention not in _ATTENTION:
        return stated
    model = 6 * _positive("params_active")
    if _ATTENTION[convention]:
        # Null in any of them makes the sum null: without the attention's sizes there is no full count.
        square = pl.col("layers") * pl.col("heads") * pl.col("head_dim") * pl.col("seq_len").cast(pl.Float64)
        model = model + _ATTENTION[convention] * square
    return pl.coalesce(stated, model)


def _peaks(steps: pl.DataFrame, stated: float | None) -> pl.DataFrame:
    """The peak of one GPU for each kind and data type among the steps."""
    pairs = steps.select("gpu_model", "dtype").unique(maintain_order=True)
    found: list[float | None] = []
    for model, dtype in pairs.iter_rows():
        if stated is not None:
            found.append(check_peak(stated, model, dtype))
            continue
        known = peak(model, dtype)
        found.append(None if known is None else known.flops)
    return pairs.with_columns(pl.Series("_peak", found, dtype=pl.Float64))


FACTS = (
    "n_gpus",
    "gpu_model",
    "dtype",
    "params_active",
    "layers",
    "heads",
    "head_dim",
    "seq_len",
    "flops_per_token",
    "flop_convention",
)
"""Columns that a session tells of its steps."""


def summary(steps: pl.DataFrame, *, seed: int, resamples: int = 2000) -> pl.DataFrame:
    """MFU of each run over its steps, with how sure it is.

    The headline is the ratio of sums; mean and median are over steps, one step one vote, and tell of stalls and slow
    stretches. The interval is a bootstrap of whole blocks of consecutive steps, since neighbours are alike: blocks are
    as long as there are blocks, and there must be 20 (so 400 steps).

    Args:
        steps: `step_mfu`'s rows, `ts` among them; those without an MFU are counted and left out.
        seed: of the random numbers.
        resamples: of the bootstrap.

    Returns:
        `cluster`, `run_id`, `n` (steps with an MFU), `n_unknown`, `flop`, `peak_flop`, `mfu`, `mfu_mean`, `mfu_median`,
        `ci_low`, `ci_high` (null where there are too few steps), `note`; by cluster and run.

    Source: Carlstein 1986 for the blocks; metric-definitions 5.5.
    """
    known = pl.col("mfu").is_not_null()
    totals = (
        steps.group_by("cluster", "run_id")
        .agg(
            n=known.sum().cast(pl.Int64),
            n_unknown=(~known).sum().cast(pl.Int64),
            flop=pl.col("flop").filter(known).sum(),
            peak_flop=pl.col("peak_flop").filter(known).sum(),
            mfu=ratio_of_sums(pl.col("flop"), pl.col("peak_flop")),
            mfu_mean=pl.col("mfu").mean(),
            mfu_median=pl.col("mfu").median(),
        )
        .sort("cluster", "run_id")
    )
    told = steps.filter(known).sort("cluster", "run_id", "ts")
    runs = {(row[0], row[1]): row for row in _of_runs(told, seed, resamples)}
    mine = [runs.get((row["cluster"], row["run_id"]), _NOTHING) for row in totals.iter_rows(named=True)]
    notes = [
        _note(row["mfu"], row["n_unknown"], row["n"], known_of_run[4])
        for row, known_of_run in zip(totals.iter_rows(named=True), mine, strict=True)
    ]
    return totals.with_columns(
        pl.Series("ci_low", [each[2] for each in mine], dtype=pl.Float64),
        pl.Series("ci_high", [each[3] for each in mine], dtype=pl.Float64),
        pl.Series("note", notes, dtype=pl.String),
    )


@dataclass(frozen=True)
class Fleet:
    """MFU of all runs together.

    Attributes:
        value: model FLOP over peak FLOP; None if no step has both.
        flop: model FLOP of the steps.
        peak_flop: what their GPUs could have done meanwhile.
        n: steps with an MFU.
        runs: runs they are of.
        low: lower end of the 95 % interval; None where there are too few steps.
        high: upper end.
        note: what a reader must know.
    """

    value: float | None
    flop: float
    peak_flop: float
    n: int
    runs: int
    low: float | None
    high: float | None
    note: str | None


def fleet(steps: pl.DataFrame, *, seed: int, resamples: int = 2000) -> Fleet:
    """The ratio of sums over the steps of all runs, with an interval from resampling blocks of each run's steps.

    Args:
        steps: `step_mfu`'s rows.
        seed: of the random numbers.
        resamples: of the bootstrap.

    Source: metric-definitions 5.5 and 7.3.
    """
    told = steps.filter(pl.col("mfu").is_not_null()).sort("cluster", "run_id", "ts")
    length = max(1, math.ceil(math.sqrt(told.height)))
    place = pl.int_range(pl.len()).over("cluster", "run_id") // length
    blocks = told.group_by("cluster", "run_id", place, maintain_order=True).agg(pl.col("flop", "peak_flop").sum())
    found = bootstrap_ratio_interval(
        blocks["flop"].to_numpy(), blocks["peak_flop"].to_numpy(), seed=seed, resamples=resamples
    )
    low, high = (None, None) if found is None or np.isnan(found.low) else found
    flop, peak_flop = float(told["flop"].sum()), float(told["peak_flop"].sum())
    value = flop / peak_flop if peak_flop else None
    kinds = told.select("gpu_model", "dtype").unique(maintain_order=True).rows()
    note = _note(value, steps.height - told.height, told.height, kinds)
    runs = told.select("cluster", "run_id").n_unique()
    return Fleet(value, flop, peak_flop, told.height, runs, low, high, note)


_NOTHING: tuple[str, str, None, None, list[tuple[str | None, str | None]]] = ("", "", None, None, [])


def _of_runs(
    steps: pl.DataFrame, seed: int, resamples: int
) -> Iterable[tuple[str, str, float | None, float | None, list[tuple[str | None, str | None]]]]:
    """Each run's interval, and the GPUs and data types of its steps."""
    for (cluster, run), rows in steps.group_by("cluster", "run_id", maintain_order=True):
        length = math.ceil(math.sqrt(rows.height))
        blocks = rows.group_by(pl.int_range(pl.len()) // length, maintain_order=True).agg(
            pl.col("flop", "peak_flop").sum()
        )
        found = bootstrap_ratio_interval(
            blocks["flop"].to_numpy(), blocks["peak_flop"].to_numpy(), seed=seed, resamples=resamples
        )
        low, high = (None, None) if found is None or np.isnan(found.low) else found
        yield str(cluster), str(run), low, high, rows.select("gpu_model", "dtype").unique(maintain_order=True).rows()


def _note(value: float | None, unknown: int, n: int, kinds: list[tuple[str | None, str | None]]) -> str | None:
    """What a person should know before quoting a run's MFU."""
    if value is None:
        return "cannot tell: the log lacks tokens or sizes of the model, or the GPU or its data type is not known"
    said = []
    known = [found for found in (peak(model, dtype) for model, dtype in kinds) if found is not None]
    said += sorted({found.note for found in known if found.note is not None})
    most = min((found.gpu.implausible_above for found in known), default=1.0)
    if value > most:
        said.append(
            f"{value:.0%} is more than such a GPU can do: is the peak of another data type (fp8?), are tokens counted "
            "twice, or are there more GPUs than the log says?"
        )
    if unknown:
        said.append(f"{unknown} of {n + unknown} steps could not be counted")
    return "; ".join(said) or None
