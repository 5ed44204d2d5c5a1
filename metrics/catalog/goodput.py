"""Published metrics of where GPU-time went."""

from metrics.catalog.entry import BOUNDS, Metric

METRICS = (
    Metric(
        "goodput_allocated",
        "ratio",
        "Share of allocated GPU-time that ended up as kept training steps.",
        "productive GPU-seconds / allocated GPU-seconds",
        "ledger_sums",
        "metrics.goodput.goodput",
        BOUNDS,
        "goodput_alloc of our definitions 5.2; queueing and idle GPUs are not in it",
    ),
    Metric(
        "goodput_capacity",
        "ratio",
        "Share of all GPU-time there was that ended up as kept training steps.",
        "productive GPU-seconds / GPU-seconds of all nodes in the inventory",
        "ledger_sums",
        "metrics.goodput.goodput",
        BOUNDS,
        "cluster goodput, Kokolis et al. (HPCA 2025) section II, normalised by capacity",
    ),
    Metric(
        "occupancy",
        "ratio",
        "Share of all GPU-time there was that was allocated to jobs.",
        "allocated GPU-seconds / GPU-seconds of all nodes in the inventory",
        "ledger_sums",
        "metrics.goodput.goodput",
        "exact (a census)",
        "our definitions 5.2",
    ),
    Metric(
        "availability",
        "ratio",
        "Share of all GPU-time there was in which the GPUs were in service.",
        "1 - (unavailable + on dead nodes under attempts) GPU-seconds / GPU-seconds of all nodes in the inventory",
        "ledger_sums",
        "metrics.goodput.goodput",
        "bounds: time without a known node state counted unavailable (low) and available (high)",
        "our definitions 5.2",
    ),
)
