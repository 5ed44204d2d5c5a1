"""Published metrics of checkpoints."""

from metrics.catalog.entry import Metric

METRICS = (
    Metric(
        "checkpoint_interval",
        "s",
        "Median training time from one checkpoint to the next, against the one that would lose least.",
        "median of the time of training steps between saves in one process; best: M (1 + W(-exp(-1 - w/M))), which "
        "minimises the exact loss below, M the MTTF at the run's size, w the time a save blocks training; Young's, "
        "Daly's and availability-optimal beside it",
        "run_events",
        "metrics.checkpoints.advice.checkpoint_advice",
        "the best interval at both ends of the MTTF's exact Poisson interval (95 %)",
        "our definitions 4.2; Young 1974; Daly 2006; Saxena et al., arXiv 2410.18124",
    ),
    Metric(
        "checkpoint_loss",
        "ratio",
        "Share of time expected to be lost to saving checkpoints and to work done again after failures.",
        "1 - (t/M) / (exp((t + w)/M) - 1): t training time between checkpoints, w time a save blocks training, M the "
        "cluster's pooled infrastructure MTTF over the run's GPUs (assumes 1/N)",
        "run_events",
        "metrics.checkpoints.advice.loss_share",
        "the loss at both ends of the MTTF's exact Poisson interval (95 %)",
        "our definitions 1.5",
    ),
)
