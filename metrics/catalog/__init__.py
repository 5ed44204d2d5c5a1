"""The metrics that Trackside publishes: what each one is, where it comes from, and how sure it is."""

from metrics.catalog import ettr, failures, goodput, mfu, restarts, telemetry
from metrics.catalog.entry import Metric

__all__ = ["BY_NAME", "METRICS", "Metric"]

METRICS: tuple[Metric, ...] = (
    *goodput.METRICS,
    *ettr.METRICS,
    *mfu.METRICS,
    *failures.METRICS,
    *restarts.METRICS,
    *telemetry.METRICS,
)
BY_NAME = {metric.name: metric for metric in METRICS}
