from __future__ import annotations

from decimal import Decimal

import polars as pl
import pytest

from ingest.mig import share_of_a_gpu
from ingest.slurm.formats.tres import read_gres, read_tres, tres_columns

GIB = 1024**3


@pytest.mark.parametrize(
    ("text", "gpus", "model"),
    [
        ("billing=2,cpu=2,gres/gpu:h100=4,gres/gpu=4,mem=2000M,node=2", 4, "h100"),
        ("gres/gpu:h100=8,gres/gpu=8", 8, "h100"),
        ("gres/gpu:a100=8", 8, "a100"),
        ("gres/gpu:a100=2,gres/gpu:h100=1", 3, "a100+h100"),
        ("gres/gpu:h100=1,gres/gpu:a100=2,gres/gpu=3", 3, "a100+h100"),
        ("gres/gpu:a100_1g.5gb=14,gres/gpu=14", 2, "a100_1g.5gb"),
        ("gres/gpu=2,gres/gpumem=80G,gres/gpuutil=100,gres/shard=4", 2, None),
        ("gres/gpumem=80G,gres/gpuutil=100", None, None),
        ("cpu=1,mem=1000M,node=1", None, None),
        ("cpu=1,gres/gpu=0,mem=1000M,node=1", 0, None),
        ("gres/gpu=16K", 16_384, None),
        ("", None, None),
    ],
)
def test_gpus_of_a_tres_are_counted_once(text: str, gpus: int | None, model: str | None) -> None:
    row = tres_columns(pl.Series([text])).row(0, named=True)
    assert (row["gpus"], row["model"], row["error"]) == (gpus, model, None)


@pytest.mark.parametrize(
    ("kind", "share"),
    [
        ("h100", 1),
        ("nvidia_h100_80gb_hbm3", 1),
        ("a100_1g.5gb", 1 / 7),
        ("nvidia_a100_3g.20gb", 3 / 7),
        ("1g.10gb+me", 1 / 7),
        ("7g.80gb", 1),
        ("mig-2g-20gb", 2 / 7),
        ("3g40gb", 3 / 7),
        ("1c.3g.40gb", 1 / 7),
        ("a30_2g.12gb", 1 / 2),
        ("1g.6gb", 1 / 4),
        ("1g.24gb", 1 / 7),
        ("rtx_pro_6000_1g.24gb", 1 / 4),
    ],
)
def test_slice_is_the_gpu_share_of_its_compute_slices(kind: str, share: float) -> None:
    assert share_of_a_gpu(kind) == pytest.approx(share)
    row = tres_columns(pl.Series([f"gres/gpu:{kind}=1,gres/gpu=1"])).row(0, named=True)
    assert (row["gpus"], row["error"]) == (Decimal(str(round(share, 3))), None)


@pytest.mark.parametrize(
    "text", ["cpu=abc", "gres/gpu=", "gres/gpu", "gres/gpu:h10", "=4", "mem=1GG", "gres/gpu=9999999999"]
)
def test_a_damaged_tres_is_refused_with_the_item(text: str) -> None:
    row = tres_columns(pl.Series([text])).row(0, named=True)
    assert row["gpus"] is None
    assert row["error"].startswith("TRES item")


def test_tres_gives_cpus_memory_and_nodes() -> None:
    row = read_tres("billing=64,cpu=64,energy=0,fs/disk=0,mem=500G,node=2,license/x=1,energy=-2")
    assert (row.cpus, row.memory_bytes, row.nodes) == (64, 500 * GIB, 2)


@pytest.mark.parametrize(
    ("text", "gpus", "model"),
    [
        ("gpu:2", 2, None),
        ("gpu:h100:4", 4, "h100"),
        ("gpu:volta:8(S:0-1)", 8, "volta"),
        ("gpu:nvidia_a100_1g.5gb:21(S:0-1)", 3, "nvidia_a100_1g.5gb"),
        ("gpu:(null):0(IDX:N/A)", 0, None),
        ("gpu:NVlink_A100_40GB:2(IDX:0,3)", 2, "NVlink_A100_40GB"),
        ("gpu:h100:1,shard:h100:2", 1, "h100"),
        ("gpu:h100:1,gpu:a100:2", 3, "a100+h100"),
        ("gpu:h100:8,shard:h10", 8, "h100"),
        ("mps:400,gpu:2", 2, None),
        ("gpu=2", 2, None),
        ("gres:gpu:2", 2, None),
        ("gpu::8", 8, None),
        ("(null)", 0, None),
        ("", 0, None),
    ],
)
def test_gpus_of_a_gres(text: str, gpus: int, model: str | None) -> None:
    assert read_gres(text) == (gpus, model)


def test_a_cut_gres_is_an_error() -> None:
    with pytest.raises(ValueError, match="gpu:h10"):
        read_gres("gpu:h10")
