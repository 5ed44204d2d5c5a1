"""Published metrics of FLOP."""

from metrics.catalog.entry import Metric

METRICS = (
    Metric(
        "mfu",
        "ratio",
        "Of what the GPUs of logged runs could have computed, the share that the model needed.",
        "model FLOP of the kept steps / (GPUs x dense peak FLOP/s x seconds of these steps)",
        "steps",
        "metrics.mfu.fleet",
        "BCa bootstrap over blocks of consecutive steps, 95 %",
        "Chowdhery et al. (PaLM, arXiv 2204.02311) appendix B; the FLOP convention is part of the value",
    ),
)
