"""Published metrics of waste: allocated GPU-time that shows no work."""

from metrics.catalog.entry import Metric

METRICS = (
    Metric(
        "waste",
        "gpu_s",
        "Allocated GPU-time that shows no work, by kind; kinds overlap, so they do not add up.",
        "GPU-seconds of the kind / GPU-seconds allocated. idle: seen inactive or standing still with no failure to "
        "explain it; unused GPUs: of that, GPUs never active; never stepped: attempts that were seen and never got to "
        "work; failed at once: broke off within 10 minutes, three times in a row or more; far short: done within "
        "a quarter of the time limit",
        "attempt_spending",
        "metrics.waste.waste.waste",
        "none: a census; at least / at most say what was not seen",
        "our definitions 5.2; design section 4",
    ),
    Metric(
        "gpu_time_by_state",
        "ratio",
        "Shares of GPU-time by how the attempts that held it ended.",
        "GPU-seconds of attempts that completed, were cancelled, failed, ... / GPU-seconds of attempts that ended",
        "attempt_spending",
        "metrics.waste.waste.state_shares",
        "exact (a census)",
        "Hu et al. (NSDI 2024, Acme), cluster summary; our definitions 9.9",
    ),
    Metric(
        "time_limit_used",
        "ratio",
        "Of the time that attempts asked for, the share that they ran.",
        "run time / time limit per attempt that completed or ran out of time in the window; median and quartiles",
        "attempt_spending",
        "metrics.waste.waste.time_limits",
        "none: a census",
        "ours",
    ),
)
