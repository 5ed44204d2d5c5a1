"""FLOP per token: the formulas, and the same over columns of what logs tell."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.mfu.flops import CONVENTIONS
from metrics.mfu.session_flops import active_params_expr, flops_per_token_expr
from tests.metrics.oracles import flops as oracle
from tests.metrics.oracles.flops import flops_per_token, megatron_flops_per_token

LLAMA: dict[str, Any] = {"hidden": 4096, "layers": 32, "ffn_hidden": 14336, "heads": 32, "kv_heads": 8, "vocab": 128256}
LOGGED: dict[str, Any] = LLAMA | {"params": 8_030_261_248.0, "head_dim": 128, "seq_len": 8192, "gated": True,
                                  "tied": False, "recompute": "none"}  # fmt: skip
MIXTRAL: dict[str, Any] = {"hidden": 4096, "layers": 32, "ffn_hidden": 14336, "heads": 32, "kv_heads": 8,
                           "vocab": 32000, "head_dim": 128, "seq_len": 4096, "gated": True, "tied": False,
                           "experts": 8, "top_k": 2,
                           "params": 46_702_792_704.0}  # fmt: skip


def reported(convention: str, measure: str = "mfu", **facts: object) -> float | None:
    """FLOP per token of a log that tells these facts."""
    row = frames.conform(pl.DataFrame([facts]), frames.MODEL)
    result = row.select(flops_per_token_expr(convention, measure)).item()  # type: ignore[arg-type]  # any may be asked
    return None if result is None else float(result)


def gpt(**changes: object) -> dict[str, Any]:
    return {"layers": 96, "hidden": 12288, "ffn_hidden": 49152, "heads": 96, "kv_heads": 96, "vocab": 51200,
            "seq_len": 2048, "gated": False, **changes}  # fmt: skip


def test_full_recomputation_is_megatrons_96_coefficient_form() -> None:
    paper = 96 * 96 * 12288**2 * (1 + 2048 / (6 * 12288) + 51200 / (16 * 96 * 12288))
    assert megatron_flops_per_token(**gpt(), recompute=True) == pytest.approx(paper)
    assert reported("megatron_legacy", "hfu", **gpt(recompute="full")) == pytest.approx(paper)


PUBLISHED = [  # Korthikanti et al., arXiv 2205.05198: sizes, batch, GPUs (A100), seconds of an iteration, MFU, HFU
    ({"layers": 48, "hidden": 6144, "heads": 64}, 4, 8, 1.10, 0.415, 0.437),
    ({"layers": 96, "hidden": 12288, "heads": 96}, 64, 64, 13.75, 0.514, 0.528),
    ({"layers": 105, "hidden": 20480, "heads": 128}, 280, 280, 37.83, 0.560, 0.570),
    ({"layers": 128, "hidden": 25600, "heads": 160}, 512, 512, 71.49, 0.563, 0.570),
]


@pytest.mark.parametrize(("sizes", "batch", "gpus", "iteration_s", "mfu", "hfu"), PUBLISHED)
def test_selective_recomputation_gives_megatrons_published_pairs(  # noqa: PLR0917 - a row of a table
    sizes: dict[str, int], batch: int, gpus: int, iteration_s: float, mfu: float, hfu: float
) -> None:
    facts = gpt(**sizes, recompute="selective", ffn_hidden=4 * sizes["hidden"], kv_heads=sizes["heads"])
    per_second = batch * 2048 / iteration_s / (gpus * 312e12)
    for measure, published in (("mfu", mfu), ("hfu", hfu)):
        flops = reported("megatron_legacy", measure, **facts)
        assert flops is not None
        assert flops * per_second == pytest.approx(published, abs=0.0021)  # times are rounded to 0.5 %, shares to 0.1 %


def test_full_recomputation_makes_8_passes_over_parameters_of_6() -> None:
    size: dict[str, Any] = {"params": 1e9, "layers": 1, "heads": 1, "head_dim": 1, "seq_len": 1}
    assert flops_per_token("6N_only", **size, recompute=True) == 8e9
    full = flops_per_token("palm_full", **size | {"layers": 10}, recompute=True)
    assert full - 8e9 == pytest.approx(12 * 10 * 4 / 3)


@pytest.mark.parametrize(
    ("convention", "golden"),
    [
        ("palm_full", 6 * 8_030_261_248 + 12_884_901_888),
        ("causal_half", 6 * 8_030_261_248 + 12_884_901_888 // 2),
        ("6N_only", 6 * 8_030_261_248),
        ("torchtitan", 57_914_449_920),
        ("megatron_legacy", 57_912_852_480),
        ("megatron_causal", 51_470_401_536),
    ],
)
def test_log_of_llama_3_8b_gives_every_convention(convention: str, golden: float) -> None:
    assert reported(convention, **LOGGED) == golden
    assert reported(convention, "hfu", **LOGGED) == golden  # nothing is computed again


def test_the_torchtitan_log_comes_out() -> None:
    per_token = reported("torchtitan", **LOGGED)
    assert per_token is not None
    assert 4376 * per_token / 1e12 == pytest.approx(253.41, abs=0.03)
    assert 100 * 4376 * per_token / 989e12 == pytest.approx(25.62, abs=0.01)


def test_executed_is_as_logged_else_palm_plus_recomputation() -> None:
    palm = reported("palm_full", **LOGGED)
    assert palm is not None
    assert reported("executed", "hfu", **LOGGED) == palm
    assert reported("executed", "hfu", **LOGGED | {"recompute": "full"}) == pytest.approx(palm * 4 / 3)
    stated = LOGGED | {"flops_per_token": 7e10, "flop_convention": "executed", "recompute": None}
    assert reported("executed", "hfu", **stated) == 7e10
    assert reported("stated", "hfu", **stated) == 7e10
    assert reported("stated", **stated) is None  # what was executed is not what the model needed
    assert reported("executed", **stated) is None


@pytest.mark.parametrize(
    ("convention", "recompute"),
    [
        *((convention, None) for convention in CONVENTIONS),
        *((convention, "selective") for convention in CONVENTIONS if convention != "megatron_legacy"),
    ],
)
def test_without_the_recomputed_share_hfu_is_null(convention: str, recompute: str | None) -> None:
    """Only Megatron's own paper defines what selective recomputation executes, by its own convention."""
    assert reported(convention, "hfu", **LOGGED | {"recompute": recompute}) is None


@pytest.mark.parametrize(
    ("convention", "missing"),
    [
        ("palm_full", "seq_len"), ("causal_half", "layers"), ("torchtitan", "vocab"), ("torchtitan", "tied"),
        ("megatron_legacy", "gated"), ("megatron_causal", "kv_heads"), ("megatron_legacy", "hidden"),
        ("megatron_legacy", "vocab"), ("6N_only", "params"), ("stated", "flops_per_token"),
    ],
)  # fmt: skip
def test_convention_that_needs_unlogged_values_is_null(convention: str, missing: str) -> None:
    assert reported(convention, **LOGGED | {missing: None}) is None


def test_active_parameters_of_a_mixture_follow_from_its_sizes() -> None:
    row = frames.conform(pl.DataFrame([MIXTRAL]), frames.MODEL)
    assert row.select(active_params_expr()).item() == 12_879_925_248
    by_total = MIXTRAL | {"expert_params": 32.0 * 8 * 3 * 4096 * 14336, "gated": None, "hidden": None}
    assert reported("6N_only", **by_total) == 6 * 12_879_925_248
    assert reported("6N_only", **MIXTRAL | {"params_active": 13e9}) == 78e9
    assert (
        reported("6N_only", **MIXTRAL | {"gated": None}) is None
    )  # neither the experts' parameters nor their matrices
    assert reported("6N_only", **MIXTRAL | {"top_k": None}) is None
    assert reported("6N_only", **MIXTRAL | {"top_k": 9}) is None


def test_megatron_counts_the_experts_that_a_token_goes_through() -> None:
    sizes = {
        name: MIXTRAL[name] for name in ("hidden", "layers", "ffn_hidden", "heads", "kv_heads", "vocab", "seq_len")
    }
    assert reported("megatron_legacy", **MIXTRAL) == pytest.approx(megatron_flops_per_token(**sizes, top_k=2))
    shared = MIXTRAL | {"shared_experts": 1, "expert_ffn_hidden": 2048, "expert_layers": 29}
    wanted = megatron_flops_per_token(**sizes, top_k=2, shared_experts=1, expert_ffn_hidden=2048, expert_layers=29)
    assert reported("megatron_legacy", **shared) == pytest.approx(wanted)
    dense = megatron_flops_per_token(**sizes)
    by_hand = 12 * 4096**2 * 29 * 1.5 * (3 * 2048 - 14336) / 4096
    assert wanted - dense == pytest.approx(by_hand)


def test_hybrid_has_the_sequence_term_in_full_attention_layers() -> None:
    hybrid = LOGGED | {"attention_layers": 8}
    whole, part, none = (reported(each, **hybrid) for each in ("palm_full", "causal_half", "6N_only"))
    assert whole is not None
    assert part is not None
    assert none is not None
    assert whole - none == 12_884_901_888 / 4
    assert whole - part == 12_884_901_888 / 8
    assert reported("palm_full", **LOGGED | {"attention_layers": 0}) == none
    assert reported("megatron_legacy", **hybrid) is None  # what its other layers cost is not known
    assert reported("megatron_legacy", **LOGGED | {"attention_layers": 32}) == 57_912_852_480


def test_amd_counters_give_executed_flop() -> None:
    # 64 lanes; a fused multiply-add is two operations; matrix operations are counted by 512.
    assert oracle.amd_executed_flops(add=1e9, mul=0, trans=0, fma=0, mfma_mops=0) == 64e9
    assert oracle.amd_executed_flops(add=0, mul=0, trans=0, fma=1e9, mfma_mops=0) == 128e9
    assert oracle.amd_executed_flops(add=1, mul=2, trans=4, fma=8, mfma_mops=16) == 64 * (1 + 2 + 4 + 16) + 512 * 16


SIZES = st.fixed_dictionaries(
    {
        "layers": st.integers(1, 128),
        "heads": st.integers(1, 128),
        "kv_heads": st.integers(1, 16),
        "head_dim": st.integers(32, 256),
        "hidden": st.integers(256, 16384),
        "ffn_hidden": st.integers(256, 65536),
        "vocab": st.integers(1000, 300_000),
        "seq_len": st.integers(128, 1_000_000),
        "gated": st.booleans(),
        "params": st.floats(1e6, 1e13),
        "recompute": st.sampled_from(["none", "full"]),
    }
)


@pytest.mark.slow
@settings(deadline=None)
@given(SIZES)
def test_columns_and_formulas_agree(facts: dict[str, Any]) -> None:
    again = facts["recompute"] == "full"
    palm = {name: facts[name] for name in ("params", "layers", "heads", "head_dim", "seq_len")}
    for convention in ("palm_full", "causal_half", "6N_only"):
        assert reported(convention, **facts) == pytest.approx(flops_per_token(convention, **palm))
        assert reported(convention, "hfu", **facts) == pytest.approx(
            flops_per_token(convention, **palm, recompute=again)
        )
    shape = {name: value for name, value in facts.items() if name not in {"params", "recompute"}}
    for convention, causal in (("megatron_legacy", False), ("megatron_causal", True)):
        assert reported(convention, **facts) == pytest.approx(megatron_flops_per_token(**shape, causal=causal))
        wanted = megatron_flops_per_token(**shape, causal=causal, recompute=again)
        assert reported(convention, "hfu", **facts) == pytest.approx(wanted)


@settings(deadline=None)
@given(SIZES, st.sampled_from(["palm_full", "causal_half", "6N_only", "megatron_legacy", "megatron_causal"]))
def test_hfu_is_between_mfu_and_four_thirds_of_it(facts: dict[str, Any], convention: str) -> None:
    needed, executed = reported(convention, **facts), reported(convention, "hfu", **facts)
    assert needed is not None
    assert executed is not None
    assert needed <= executed * (1 + 1e-12)
    assert executed <= needed * 4 / 3 * (1 + 1e-12)
