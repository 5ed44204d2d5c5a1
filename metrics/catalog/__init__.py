"""The metrics that Trackside publishes: what each one is, where it comes from, and how sure it is."""

from metrics.catalog import checkpoints, ettr, failures, goodput, mfu, nodes, restarts, telemetry, waste
from metrics.catalog.entry import Metric

__all__ = ["BY_NAME", "METRICS", "Metric"]

METRICS: tuple[Metric, ...] = (
    *goodput.METRICS,
    *ettr.METRICS,
    *mfu.METRICS,
    *failures.METRICS,
    *restarts.METRICS,
    *nodes.METRICS,
    *checkpoints.METRICS,
    *waste.METRICS,
    *telemetry.METRICS,
)
BY_NAME = {metric.name: metric for metric in METRICS}
