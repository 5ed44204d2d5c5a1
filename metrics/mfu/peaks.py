"""Peaks of GPUs: dense ones, in FLOP/s (never tera), by kind of GPU and data type.

A peak "with sparsity" is twice the dense one, and an MFU over it half the true one: the table has none.

Sources, by the short names used below:
    torchtitan: pytorch/torchtitan, models/utils.py.
    ml-engineering: stas00/ml-engineering, compute/accelerator, where each row links the vendor's sheet.
    sheets: NVIDIA's H100 and A100, AMD's CDNA 2 to 4 white papers: units x FLOP per clock x clock give the peak.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

DTYPES = {
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp16": "bf16",
    "float16": "bf16",
    "half": "bf16",
    "amp": "bf16",
    "fp8": "fp8",
    "float8": "fp8",
    "mxfp8": "fp8",
    "fp4": "fp4",
    "float4": "fp4",
    "mxfp4": "fp4",
    "nvfp4": "nvfp4",
}
"""Data type of the matrix products, as people write it, to the column of the peak table (fp16 runs at bf16's rate)."""


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU: the words that name it, and its dense peaks in FLOP/s by column of `DTYPES`.

    `words` must all be in a name for it to be this kind. `peak_clock_mhz` is the SM clock that the peak is computed
    with, where it is known. A step MFU above `implausible_above` means that something does not fit.
    """

    name: str
    words: tuple[str, ...]
    peaks: dict[str, float] = field(hash=False)
    peak_clock_mhz: int | None = None
    note: str | None = None
    implausible_above: float = 1.0


_T = 1e12
_HOPPER_SXM = {"bf16": 989 * _T, "fp8": 1979 * _T}
_HOPPER_CLOCK = 1830  # 132 SMs x 4096 FLOP x 1.83 GHz = 989.4 TFLOP/s
_HOPPER_MOST = 0.85  # a plain matrix product reaches 80 % (ml-engineering)
_AMPERE_MOST = 0.92  # ... 87 %
_BLACKWELL_MOST = 0.85  # ... 73 to 78 %
_CDNA_MOST = 0.75  # ... 51 %, with software that has grown better since
_ASSUMED_SXM = "the name does not give the variant: taken as H100 SXM"

GPUS: tuple[Gpu, ...] = (
    *(
        Gpu("H100 PCIe", ("h100", word), {"bf16": 756 * _T, "fp8": 1513 * _T}, 1620, implausible_above=_HOPPER_MOST)
        for word in ("pcie", "hbm2e")
    ),
    Gpu("H100 NVL", ("h100", "nvl"), {"bf16": 835 * _T}, implausible_above=_HOPPER_MOST),
    *(
        Gpu("H100 SXM", ("h100", word), _HOPPER_SXM, _HOPPER_CLOCK, implausible_above=_HOPPER_MOST)
        for word in ("hbm3", "sxm", "sxm5")
    ),
    Gpu("H100 SXM", ("h100",), _HOPPER_SXM, _HOPPER_CLOCK, _ASSUMED_SXM, _HOPPER_MOST),
    Gpu("H200 NVL", ("h200", "nvl"), {}),
    Gpu("H200", ("h200",), _HOPPER_SXM, _HOPPER_CLOCK, implausible_above=_HOPPER_MOST),
    Gpu("GH200", ("gh200",), _HOPPER_SXM, _HOPPER_CLOCK, implausible_above=_HOPPER_MOST),
    Gpu("H20", ("h20",), {"bf16": 148 * _T}, note="second-hand figure"),
    Gpu("A100", ("a100",), {"bf16": 312 * _T}, 1410, implausible_above=_AMPERE_MOST),
    Gpu("L40S", ("l40s",), {"bf16": 362 * _T, "fp8": 733 * _T}),
    Gpu(
        "GB300",
        ("gb300",),
        {"bf16": 2500 * _T, "fp8": 5000 * _T, "fp4": 15000 * _T, "nvfp4": 15000 * _T},
        implausible_above=_BLACKWELL_MOST,
    ),
    Gpu(
        "GB200",
        ("gb200",),
        {"bf16": 2500 * _T, "fp8": 5000 * _T, "fp4": 10000 * _T, "nvfp4": 10000 * _T},
        implausible_above=_BLACKWELL_MOST,
    ),
    Gpu(
        "B300",
        ("b300",),
        {"bf16": 2250 * _T, "fp8": 4500 * _T, "fp4": 12600 * _T, "nvfp4": 15000 * _T},
        implausible_above=_BLACKWELL_MOST,
    ),
    Gpu(
        "B200",
        ("b200",),
        {"bf16": 2250 * _T, "fp8": 4500 * _T, "fp4": 9000 * _T, "nvfp4": 10000 * _T},
        implausible_above=_BLACKWELL_MOST,
    ),
    Gpu("MI300X", ("mi300x",), {"bf16": 1300 * _T, "fp8": 2610 * _T}, 2100, implausible_above=_CDNA_MOST),
    Gpu("MI325X", ("mi325x",), {"bf16": 1300 * _T, "fp8": 2610 * _T}, 2100, implausible_above=_CDNA_MOST),
    Gpu(
        "MI355X",
        ("mi355x",),
        {"bf16": 2500 * _T, "fp8": 5000 * _T, "fp4": 10100 * _T},
        2400,
        implausible_above=_CDNA_MOST,
    ),
    Gpu("MI250X", ("mi250x",), {"bf16": 191.5 * _T}, 1700, "per GCD, which ROCm counts as a GPU; a card has two"),
    Gpu("Gaudi3", ("gaudi3",), {"bf16": 1677 * _T, "fp8": 1677 * _T}, note="at the measured clock; 1835 on paper"),
    Gpu("TPU v5p", ("v5p",), {"bf16": 459 * _T}),
    Gpu("TPU v6e", ("v6e",), {"bf16": 918 * _T, "fp8": 918 * _T}),
)
"""Dense peaks (ml-engineering; H100 NVL, H20 and MI250X from torchtitan)."""

_SLICE = re.compile(r"mig|\d+g|[dtqc]px")
"""A word of a name that is of a part of a GPU: `A100 MIG 1g.10gb`, `nvidia_a100_3g.20gb`, `MI300X cpx_nps4`."""


@dataclass(frozen=True)
class Peak:
    """A dense peak: of which GPU, for which column of `DTYPES`, and what was assumed."""

    gpu: Gpu
    dtype: str
    flops: float
    note: str | None


def gpu_of(name: str | None) -> Gpu | None:
    """The kind of GPU that a name means; None if it is unknown, or names a slice of one.

    Names come from drivers (`NVIDIA H100 80GB HBM3`), node labels (`NVIDIA-A100-SXM4-80GB`) and Slurm (`h200`). They
    are compared word by word, in any case, so that H20 is no H200; of several kinds that fit, the one with most words
    is it.

    >>> gpu_of("NVIDIA H100 80GB HBM3").name, gpu_of("NVIDIA-H100-PCIe").name, gpu_of("h200").name
    ('H100 SXM', 'H100 PCIe', 'H200')
    >>> gpu_of("NVIDIA A100-SXM4-40GB MIG 1g.5gb") is gpu_of("Tesla V100") is None
    True
    >>> gpu_of("AMD_Instinct_MI300X_OAM").name, gpu_of("AMD_Instinct_MI300X_OAM-PARTITION-cpx_nps4")
    ('MI300X', None)
    """
    words = set(re.findall(r"[a-z0-9]+", (name or "").lower()))
    if any(_SLICE.fullmatch(word) for word in words):
        return None
    fitting = [gpu for gpu in GPUS if words >= set(gpu.words)]
    return max(fitting, key=lambda gpu: len(gpu.words), default=None)


def peaks(gpu_model: str | None, dtype: str | None) -> tuple[Peak, ...]:
    """The dense peaks of one GPU for the data types that a name means, the lowest first; none where it is unknown.

    A run that multiplies in several types (`bf16+fp8`, `fp8 mixed`) has several, and its MFU is ambiguous: over the
    higher peak it is not flattered, over the lower one it may be.

    >>> [found.flops / 1e12 for found in peaks("NVIDIA H100 80GB HBM3", "bf16+fp8")]
    [989.0, 1979.0]
    """
    gpu = gpu_of(gpu_model)
    columns = () if gpu is None else columns_of(dtype)
    if gpu is None or any(column not in gpu.peaks for column in columns):
        return ()
    return tuple(sorted((Peak(gpu, each, gpu.peaks[each], gpu.note) for each in columns), key=lambda each: each.flops))


def peak(gpu_model: str | None, dtype: str | None) -> Peak | None:
    """The dense peak of one GPU for a data type, the highest of several; None where the table has none.

    >>> peak("NVIDIA H100 80GB HBM3", "bf16").flops / 1e12
    989.0
    >>> peak("h100", "bf16").note
    'the name does not give the variant: taken as H100 SXM'
    >>> peak("NVIDIA A100-SXM4-80GB", "fp8") is None  # it has none
    True
    """
    return next(iter(peaks(gpu_model, dtype)[-1:]), None)


def columns_of(dtype: str | None) -> tuple[str, ...]:
    """Columns of the peak table for a data type as people write it: `torch.bfloat16`, `FP8`, `float8_e4m3fn`.

    `mixed` after a narrow type means that the rest is done in bf16; after a wide one (`bf16-mixed`), that weights are
    kept in fp32, which no matrix product is done in.

    >>> columns_of("torch.bfloat16"), columns_of("float8_e4m3fn"), columns_of("fp32")
    (('bf16',), ('fp8',), ())
    >>> columns_of("fp8+bf16"), columns_of("FP8 mixed"), columns_of("bf16-mixed")
    (('fp8', 'bf16'), ('fp8', 'bf16'), ('bf16',))
    """
    words = re.findall(r"[a-z0-9]+", (dtype or "").lower())
    types = [DTYPES[word] for word in words if word in DTYPES]
    if types and "mixed" in words:
        types.append("bf16")
    return tuple(dict.fromkeys(types))
