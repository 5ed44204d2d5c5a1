"""Published metrics of FLOP."""

from metrics.catalog.entry import Metric

METRICS = (
    Metric(
        "mfu",
        "ratio",
        "Of what the GPUs of logged runs could have computed, the share that the model needed.",
        "model FLOP of the kept steps / (GPUs allocated x dense peak FLOP/s x seconds of these steps)",
        "steps",
        "metrics.mfu.mfu.fleet",
        "BCa bootstrap over blocks of consecutive steps, 95 %",
        "Chowdhery et al. (PaLM, arXiv 2204.02311) appendix B; the FLOP convention is part of the value",
    ),
    Metric(
        "hfu",
        "ratio",
        "Of what the GPUs of logged runs could have computed, the share that they did, recomputation included.",
        "executed FLOP of the kept steps / (GPUs allocated x dense peak FLOP/s x seconds of these steps)",
        "steps",
        "metrics.mfu.mfu.fleet",
        "BCa bootstrap over blocks of consecutive steps, 95 %",
        "Narayanan et al. (arXiv 2104.04473); full activation checkpointing: 4 passes instead of 3",
    ),
    Metric(
        "mfu_wall",
        "ratio",
        "MFU over all time that logged runs were allocated GPUs: what MFU and the share of productive time come to.",
        "model FLOP of the kept steps / (dense peak FLOP/s x allocated GPU-seconds of the runs)",
        "ledger_sums",
        "metrics.mfu.wall.run_mfu",
        "bounds: time that no log tells of counted without model FLOP (low) and at the MFU of the steps (high)",
        "metric-definitions 6.1: run MFU = step MFU x productive share",
    ),
    Metric(
        "mfu_proxy",
        "ratio",
        "What to multiply tensor activity by to come to the MFU of logs, over the hours that have both.",
        "sum(w MFU HFU) / sum(w HFU^2), HFU = tensor activity x SM clock / clock of the peak, w = GPU-hours",
        "attempt_tensor_hours",
        "metrics.mfu.proxy.fits",
        "residual: root mean square of what the fit leaves, as MFU",
        "metric-definitions 6.4; NVIDIA DCGM user guide, profiling metrics",
    ),
    Metric(
        "mfu_estimated",
        "ratio",
        "MFU of runs without logs as tensor activity suggests it; an estimate, in no other figure.",
        "a x (tensor activity x SM clock / clock of the peak), a fitted to logged runs of the same kind of GPU",
        "attempt_tensor_hours",
        "metrics.mfu.proxy.estimated",
        "none; the residual of the fit says how far single hours of logged runs lie from it",
        "metric-definitions 6.4",
    ),
)
