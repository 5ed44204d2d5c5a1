from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from metrics.mfu.mfu import fleet, step_mfu, summary
from metrics.mfu.peaks import gpu_of, peak, peaks
from tests.metrics.oracles import flops as oracle
from tests.metrics.oracles.flops import flops_per_token, mfu

T0 = datetime(2026, 10, 1, tzinfo=UTC)
LLAMA: dict[str, Any] = {"hidden": 4096, "layers": 32, "ffn_hidden": 14336, "heads": 32, "kv_heads": 8, "vocab": 128256}
T = 1e12


def row(**changes: object) -> dict[str, object]:
    """A step of Llama-3-8B on one H100 at torchtitan's speed."""
    return {
        "cluster": "a",
        "run_id": "r",
        "step": 0,
        "ts": T0,
        "wall_s": 1.0,
        "tokens": 4376.0,
        "n_gpus": 1,
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "dtype": "bf16",
        "params_active": 8.03e9,
        "layers": 32,
        "heads": 32,
        "head_dim": 128,
        "seq_len": 8192,
        "flops_per_token": None,
        "flop_convention": None,
        **changes,
    }


def frame(*rows: dict[str, object]) -> pl.DataFrame:
    types: dict[str, Any] = {"flops_per_token": pl.Float64, "flop_convention": pl.String, "gpu_model": pl.String}
    return pl.DataFrame(list(rows), schema_overrides=types)


def test_palm_540b() -> None:
    per_token = flops_per_token("palm_full", params=540.35e9, layers=118, heads=48, head_dim=256, seq_len=2048)
    assert per_token == pytest.approx(3.27773e12, rel=1e-5)
    assert mfu(238.3e3, per_token, 6144 * 275e12) == pytest.approx(0.4623, abs=5e-5)
    only = flops_per_token("6N_only", params=540.35e9, layers=118, heads=48, head_dim=256, seq_len=2048)
    assert mfu(238.3e3, only, 6144 * 275e12) == pytest.approx(0.4573, abs=5e-5)


def test_a_small_gpt() -> None:
    assert flops_per_token("palm_full", params=124e6, layers=12, heads=12, head_dim=64, seq_len=1024) == 857_246_208


def test_half_of_attention_is_half_of_attention() -> None:
    size: dict[str, Any] = {"params": 8.03e9, "layers": 32, "heads": 32, "head_dim": 128, "seq_len": 8192}
    full, half, none = (flops_per_token(c, **size) for c in ("palm_full", "causal_half", "6N_only"))
    assert full - half == half - none > 0


def test_llama_3_8b_in_torchtitans_form() -> None:
    params = oracle.llama_params(**LLAMA)
    assert params == 8_030_261_248
    per_token = oracle.torchtitan_flops_per_token(
        matmul_params=params - 128256 * 4096, layers=32, heads=32, qk_head_dim=128, v_head_dim=128, seq_len=8192
    )
    assert per_token == 57_914_449_920
    assert per_token - 6 * (params - 128256 * 4096) == 12_884_901_888
    assert per_token * 4376 / T == pytest.approx(253.43, abs=0.005)
    assert mfu(4376, per_token, 989e12) == pytest.approx(0.2563, abs=5e-5)


def test_llama_3_8b_in_megatrons_forms() -> None:
    assert oracle.megatron_flops_per_token(**LLAMA, seq_len=8192) == 57_912_852_480
    assert oracle.megatron_flops_per_token(**LLAMA, seq_len=8192, causal=True) == 51_470_401_536


def test_megatrons_form_for_gpt_is_the_one_of_its_paper() -> None:
    size: dict[str, Any] = {
        "layers": 96,
        "hidden": 12288,
        "ffn_hidden": 4 * 12288,
        "heads": 96,
        "kv_heads": 96,
        "vocab": 51200,
    }
    paper = 72 * 96 * 12288**2 * (1 + 2048 / (6 * 12288) + 51200 / (12 * 96 * 12288))
    assert oracle.megatron_flops_per_token(**size, seq_len=2048, gated=False) == pytest.approx(paper)


def test_mixtral_8x7b_has_13_of_47_billion_parameters_active() -> None:
    layers, hidden, ffn, experts = 32, 4096, 14336, 8
    dense = oracle.llama_params(hidden=hidden, layers=layers, ffn_hidden=ffn, heads=32, kv_heads=8, vocab=32000)
    expert = layers * experts * 3 * hidden * ffn
    total = dense + expert * 7 // 8 + layers * hidden * experts  # seven more experts and the router
    assert total == 46_702_792_704
    assert oracle.active_params(total, expert_params=expert, experts=experts, top_k=2) == 12_879_925_248


def test_tied_embeddings_count_once() -> None:
    assert oracle.llama_params(**LLAMA) - oracle.llama_params(**LLAMA, tied=True) == 128256 * 4096


@pytest.mark.parametrize(
    ("name", "dtype", "tera"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 989),
        ("NVIDIA H100 80GB HBM3", "fp8", 1979),
        ("NVIDIA-H100-80GB-HBM3", "torch.bfloat16", 989),
        ("H100 SXM", "bf16", 989),
        ("nvidia_h100_80gb_hbm3", "fp16", 989),
        ("NVIDIA H100 PCIe", "bf16", 756),
        ("NVIDIA H100 NVL", "bf16", 835),
        ("NVIDIA A100-SXM4-80GB", "bf16", 312),
        ("NVIDIA A100-PCIE-40GB", "bfloat16", 312),
        ("NVIDIA GB200", "bf16", 2500),
        ("NVIDIA GB300", "fp4", 15000),
        ("NVIDIA B200", "FP8", 4500),
        ("NVIDIA B300 SXM6 AC", "bf16", 2250),
        ("h200", "bf16", 989),
        ("NVIDIA H200", "float8_e4m3fn", 1979),
        ("NVIDIA GH200 480GB", "bf16", 989),
        ("NVIDIA H20", "bf16", 148),
        ("NVIDIA L40S", "bf16", 362),
        ("nvidia l40s", "FP8", 733),
        ("NVIDIA GB200", "nvfp4", 10000),
        ("NVIDIA GB300", "bf16", 2500),
        ("GB300 NVL72", "nvfp4", 15000),
        ("NVIDIA B300 SXM6 AC", "fp4", 12600),
        ("NVIDIA B300 SXM6 AC", "nvfp4", 15000),
        ("NVIDIA B200", "fp4", 9000),
        ("NVIDIA H100 80GB HBM2e", "fp8", 1513),
        ("AMD Instinct MI300X", "bf16", 1300),
        ("AMD Instinct MI325X", "fp8", 2610),
        ("AMD Instinct MI355X", "fp4", 10100),
        ("AMD Instinct MI250X", "bf16", 191.5),
        ("Gaudi3", "fp8", 1677),
        ("TPU v5p", "bf16", 459),
        ("TPU v6e", "bf16", 918),
    ],
)
def test_names_that_drivers_and_schedulers_use_find_their_peak(name: str, dtype: str, tera: float) -> None:
    result = peak(name, dtype)
    assert result is not None
    assert result.flops == tera * T


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("Tesla V100-SXM2-32GB", "bf16"),
        ("NVIDIA H200 NVL", "bf16"),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "bf16"),
        ("nvidia_a100_3g.20gb", "bf16"),
        ("NVIDIA A100-SXM4-80GB", "fp8"),
        ("NVIDIA H100 NVL", "fp8"),
        ("h100", "fp32"),
        ("h100", None),
        (None, "bf16"),
        ("", ""),
    ],
)
def test_missing_table_entries_are_not_guessed(name: str | None, dtype: str | None) -> None:
    assert peak(name, dtype) is None


def test_bare_h100_is_taken_as_sxm_with_a_note() -> None:
    bare, reported = peak("h100", "bf16"), peak("NVIDIA H100 80GB HBM3", "bf16")
    assert bare is not None
    assert reported is not None
    assert bare.flops == reported.flops
    assert "taken as H100 SXM" in str(bare.note)
    assert reported.note is None


def test_the_clock_behind_the_h100_peak_gives_the_peak() -> None:
    gpu = gpu_of("NVIDIA H100 80GB HBM3")
    assert gpu is not None
    assert gpu.peak_clock_mhz is not None
    assert 132 * 4096 * gpu.peak_clock_mhz * 1e6 == pytest.approx(989.4e12, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "units", "per_clock", "tolerance"),
    [
        ("NVIDIA A100-SXM4-80GB", 108, 2048, 0.002),
        ("NVIDIA H100 80GB HBM3", 132, 4096, 0.001),
        ("NVIDIA H200", 132, 4096, 0.001),
        ("NVIDIA H100 PCIe", 114, 4096, 0.001),
        ("AMD Instinct MI250X", 110, 1024, 0.001),
        ("AMD Instinct MI300X", 304, 2048, 0.006),  # 1307 by formula
        ("AMD Instinct MI325X", 304, 2048, 0.006),
        ("AMD Instinct MI355X", 256, 4096, 0.007),  # 2516.6 by formula
    ],
)
def test_peak_is_units_times_flop_per_clock_times_the_clock(
    name: str, units: int, per_clock: int, tolerance: float
) -> None:
    result = peak(name, "bf16")
    assert result is not None
    assert result.gpu.peak_clock_mhz is not None
    assert units * per_clock * result.gpu.peak_clock_mhz * 1e6 == pytest.approx(result.flops, rel=tolerance)


@pytest.mark.parametrize("dtype", ["bf16+fp8", "FP8 mixed", "fp8,bf16", "mixed_fp8", "torch.bfloat16 + float8_e4m3fn"])
def test_a_run_in_several_data_types_has_a_peak_for_each(dtype: str) -> None:
    assert [result.flops / T for result in peaks("NVIDIA H100 80GB HBM3", dtype)] == [989, 1979]
    over = [step_mfu(frame(row(dtype=dtype)), lower_peak=lower)["peak_flop"].item() / T for lower in (True, False)]
    assert over == [989, 1979]


def test_a_chosen_peak_replaces_that_of_the_type_in_use() -> None:
    steps = frame(row(dtype="fp8"), row(dtype=None))
    over = step_mfu(steps, peak_dtype="bf16")
    assert (over["peak_flop"] / T).to_list() == [989, 989]
    assert over["peak_dtype"].to_list() == ["bf16", "bf16"]
    of_fp8 = step_mfu(steps)["mfu"]
    assert over["mfu"][0] == pytest.approx(of_fp8[0] * 1979 / 989)
    assert of_fp8[1] is None


@pytest.mark.parametrize("dtype", ["bf16", "bf16-mixed", "amp", "fp16"])
def test_mixed_precision_in_bf16_is_no_second_data_type(dtype: str) -> None:
    assert [result.flops / T for result in peaks("h100", dtype)] == [989]


def test_of_types_that_a_gpu_does_not_all_have_it_has_no_peak() -> None:
    assert peaks("NVIDIA A100-SXM4-80GB", "bf16+fp8") == ()


@pytest.mark.parametrize(("tera", "printed"), [(430, 43), (400, 41), (380, 38)])
def test_llama_3_405b_is_within_a_point_of_what_was_printed(tera: int, printed: int) -> None:
    assert 100 * tera * T / 989e12 == pytest.approx(printed, abs=1)


def test_published_tflops_over_the_dense_peak() -> None:
    shares = [tera * T / 989e12 for tera in (430, 400, 380)]
    assert [round(100 * share, 2) for share in shares] == [43.48, 40.44, 38.42]
    assert round(100 * 400e12 / 1979e12, 2) == 20.21


def test_a_step_of_llama() -> None:
    result = step_mfu(frame(row())).row(0, named=True)
    per_token = 6 * 8.03e9 + 12 * 32 * 32 * 128 * 8192
    assert result["flop"] == pytest.approx(4376 * per_token)
    assert result["peak_flop"] == pytest.approx(989e12)
    assert result["mfu"] == pytest.approx(4376 * per_token / 989e12)


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": None},
        {"wall_s": None},
        {"wall_s": 0.0},
        {"n_gpus": None},
        {"n_gpus": 0},
        {"gpu_model": "Voodoo 2"},
        {"gpu_model": None},
        {"dtype": None},
        {"params_active": None},
        {"layers": None},
        {"seq_len": None},
    ],
)
def test_a_step_that_lacks_anything_has_no_mfu(change: dict[str, object]) -> None:
    result = step_mfu(frame(row(**change), row()))
    assert result["mfu"][0] is None
    assert result["mfu"][1] is not None


def test_without_attention_its_sizes_are_not_needed() -> None:
    result = step_mfu(frame(row(layers=None, seq_len=None)), convention="6N_only")
    assert result["flop"].item() == pytest.approx(4376 * 6 * 8.03e9)


def test_stated_flops_count_under_their_own_convention_only() -> None:
    reported = frame(row(flops_per_token=5e10, flop_convention="megatron_causal"), row(flops_per_token=4e10))
    assert step_mfu(reported, convention="megatron_causal")["flop"].to_list() == [4376 * 5e10, None]
    assert step_mfu(reported, convention="stated")["flop"].to_list() == [4376 * 5e10, 4376 * 4e10]
    computed = step_mfu(frame(row(), row()))["flop"]
    assert step_mfu(reported)["flop"].equals(computed)
    same = frame(row(flops_per_token=1e10, flop_convention="palm_full"))
    assert step_mfu(same)["flop"].item() == 4376 * 1e10


def test_an_unknown_convention_is_refused() -> None:
    with pytest.raises(ValueError, match="palm_full"):
        step_mfu(frame(row()), convention="palm")  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(ValueError, match="cannot be worked out"):
        flops_per_token("executed", params=1, layers=1, heads=1, head_dim=1, seq_len=1)


def test_rows_keep_their_order() -> None:
    rows = frame(*(row(step=n, gpu_model=["h100", "a100", "what"][n % 3]) for n in range(50)))
    assert step_mfu(rows)["step"].to_list() == list(range(50))


def test_no_steps_is_no_error() -> None:
    none = step_mfu(frame(row()).clear())
    assert none.is_empty()
    assert summary(none, seed=1).is_empty()


def many(n: int, **changes: object) -> pl.DataFrame:
    slow = {"wall_s": 2.0}
    rows = [row(step=k, ts=T0 + timedelta(seconds=k), **(changes | (slow if k % 10 == 0 else {}))) for k in range(n)]
    return step_mfu(frame(*rows))


def test_run_has_the_ratio_of_sums_with_mean_and_median() -> None:
    result = summary(many(1000), seed=3).row(0, named=True)
    fast = 4376 * (6 * 8.03e9 + 12 * 32 * 32 * 128 * 8192) / 989e12
    assert result["mfu"] == pytest.approx(fast / 1.1)
    assert result["mfu_mean"] == pytest.approx(fast * 0.95)
    assert result["mfu_median"] == pytest.approx(fast)
    assert result["n"] == 1000
    assert result["ci_low"] < result["mfu"] < result["ci_high"]
    assert result["ci_high"] - result["ci_low"] < 0.02
    assert result["note"] is None


def test_the_same_seed_gives_the_same_interval() -> None:
    steps = many(500)
    assert summary(steps, seed=3).equals(summary(steps.sample(fraction=1, shuffle=True, seed=9), seed=3))
    assert not summary(steps, seed=3).equals(summary(steps, seed=4))


def test_few_steps_have_no_interval() -> None:
    result = summary(many(100), seed=1).row(0, named=True)
    assert result["mfu"] is not None
    assert result["ci_low"] is result["ci_high"] is None


def test_more_than_the_gpu_can_do_is_reported() -> None:
    result = summary(many(20, tokens=4376.0 * 3.6), seed=1).row(0, named=True)
    assert 0.83 < result["mfu"] < 1
    assert "more than such a GPU can do" in summary(many(20, tokens=4376.0 * 4), seed=1)["note"].item()


def test_single_steps_above_what_the_gpu_can_do_are_reported() -> None:
    steps = pl.concat([many(30), many(2, tokens=4376.0 * 5)], how="vertical_relaxed")
    result = summary(steps, seed=1).row(0, named=True)
    assert result["n_implausible"] == 1  # the other one took twice as long
    assert "1 of 32 steps are above what such a GPU can do (85%)" in result["note"]


@pytest.mark.parametrize("tokens", [1e308, 4376.0 * 20])
def test_impossible_step_is_left_out_and_counted(tokens: float) -> None:
    steps = pl.concat([many(30), many(2, tokens=tokens)], how="vertical_relaxed")
    result = summary(steps, seed=1).row(0, named=True)
    assert result["mfu"] == pytest.approx(summary(many(30), seed=1)["mfu"].item())
    assert (result["n"], result["n_unknown"], result["n_impossible"]) == (30, 2, 2)
    assert "2 of 32 steps are left out: they claim more than 2 times the FLOP that their GPUs can do" in result["note"]
    assert fleet(steps, seed=1).value == pytest.approx(result["mfu"])
    assert "could not be counted" not in result["note"]


def test_run_of_impossible_steps_has_no_mfu_and_a_reason() -> None:
    result = summary(many(20, tokens=1e308), seed=1).row(0, named=True)
    assert result["mfu"] is None
    assert result["note"].startswith("20 of 20 steps are left out: they claim more than 2 times the FLOP")


def test_an_unknown_kind_of_gpu_has_a_limit_of_its_own() -> None:
    known, unknown = many(1, gpu_model="Q1"), many(1, tokens=1e300, gpu_model="Q1")
    assert known["flop"].item() > 0
    assert unknown["flop"].item() is None


def test_log_flushed_once_in_ten_steps_keeps_all_of_them() -> None:
    lengths = pl.Series("wall_s", [10.0 if n % 10 == 9 else 0.001 for n in range(40)])
    flushed = many(40).with_columns(lengths)
    result = summary(
        step_mfu(flushed.drop("flop", "peak_flop", "mfu", "peak_dtype", "implausible", "impossible")), seed=1
    )
    assert result["n"].item() == 40
    assert result["mfu"].item() == pytest.approx(summary(step_mfu(frame(row())), seed=1)["mfu"].item(), rel=1e-3)


def test_run_of_unknown_mfu_has_a_reason() -> None:
    result = summary(many(20, tokens=None), seed=1).row(0, named=True)
    assert result["mfu"] is None
    assert result["n"] == 0
    assert result["n_unknown"] == 20
    assert "cannot tell" in result["note"]


def test_steps_that_could_not_be_counted_are_counted() -> None:
    steps = pl.concat([many(20), many(5, tokens=None)], how="vertical_relaxed")
    assert "5 of 25 steps could not be counted" in summary(steps, seed=1)["note"].item()


def test_a_fleet_is_the_ratio_of_sums_over_all_runs() -> None:
    fleets = pl.DataFrame(
        {
            "cluster": ["c"] * 900,
            "run_id": ["a"] * 450 + ["b"] * 450,
            "ts": [*range(450), *range(450)],
            "gpu_model": ["NVIDIA H100 80GB HBM3"] * 900,
            "dtype": ["bf16"] * 900,
            "flop": [4.0] * 450 + [2.0] * 450,
            "peak_flop": [10.0] * 450 + [20.0] * 450,
        }
    ).with_columns(mfu=pl.col("flop") / pl.col("peak_flop"))
    fleets = fleets.with_columns(implausible=pl.lit(value=False), impossible=pl.lit(value=False))
    result = fleet(fleets, seed=1)
    assert result.value == pytest.approx((4 + 2) / (10 + 20))
    assert (result.n, result.runs) == (900, 2)
    assert result.value is not None
    assert result.low is not None
    assert result.high is not None
    assert result.low < result.value < result.high
    nothing = fleet(fleets.with_columns(mfu=pl.lit(None, dtype=pl.Float64)), seed=1)
    assert (nothing.value, nothing.n) == (None, 0)
