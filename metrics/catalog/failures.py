"""Published metrics of failure rates."""

from metrics.catalog.entry import Metric

METRICS = (
    Metric(
        "mttf",
        "d",
        "Mean time to failure of a job, by size and pooled.",
        "exposure of all attempts, censored ones included / interruptions of the class",
        "attempts",
        "metrics.failure_rates.failure_rates",
        "exact Poisson, 95 %; Jeffreys beside it for the rate",
        "Kokolis et al. (HPCA 2025) section III; Garwood 1936",
    ),
)
