"""Published metrics of the time that runs wanted."""

from metrics.catalog.entry import BOUNDS, Metric

METRICS = (
    Metric(
        "ettr",
        "ratio",
        "Of the time runs wanted to train, the share in which they did; queueing counts.",
        "productive GPU-seconds / (queued + scheduled) GPU-seconds of the runs, initial queue included",
        "ledger_sums",
        "metrics.ettr.ettr_by_run",
        BOUNDS,
        "Kokolis et al. (HPCA 2025) section II: ETTR = R / (Q + R + U)",
    ),
    Metric(
        "ettr_without_initial_queue",
        "ratio",
        "ETTR from the first start on.",
        "productive GPU-seconds / (queued after the first start + scheduled) GPU-seconds of the runs",
        "ledger_sums",
        "metrics.ettr.ettr_by_run",
        BOUNDS,
        "as ettr, without the wait before the first start",
    ),
    Metric(
        "ettr_imputed",
        "ratio",
        "ETTR as Meta imputes it where nothing is logged: an assumption, not a measurement.",
        "sum of max(0, T - 5 min - 30 min) x GPUs over attempts / (queued + scheduled) GPU-seconds",
        "attempts",
        "metrics.ettr.imputed",
        "none: assumed",
        "Kokolis et al. (HPCA 2025) section IV: dt = 60 min, u0 = 5 min for every attempt",
    ),
)
