"""Published metrics of interruptions and restarts."""

from metrics.catalog.entry import Metric

_MEDIAN = "order statistics of the median, at least 95 %"
_META = "Kokolis et al. (HPCA 2025) section III-C"


def _stage(name: str, summary: str, formula: str) -> Metric:
    """A stage of a restart: each has the statistics that `time_to_job_restart` has, over the restarts that tell it."""
    return Metric(
        name,
        "s",
        summary,
        f"{formula}; median, p90 and mean of the restarts of which it is known",
        "restarts",
        "metrics.restarts.restarts.restart_stages",
        _MEDIAN,
        "our definitions 4.3",
    )


METRICS = (
    Metric(
        "time_to_job_restart",
        "s",
        "From the end of an interrupted attempt to the start of the next one of the run.",
        "Start of the next attempt - End of the interrupted one (t2 to t4); median, p90 and mean",
        "restarts",
        "metrics.restarts.restarts.restart_summary",
        _MEDIAN,
        "our definitions 4.3 (the headline 'about 90 s' has no published definition)",
    ),
    _stage(
        "time_to_detect",
        "From the last good step to the first sign of the failure.",
        "first health event, node state, NCCL watchdog or end of the job - end of the last good step (t0 to t1)",
    ),
    _stage("time_to_terminate", "From the first sign of the failure to the end of the attempt.", "t1 to t2"),
    _stage("time_to_requeue", "Slurm's own hold after a requeue.", "next attempt eligible - End (t2 to t3)"),
    _stage("restart_queue", "Waiting for nodes after an interruption.", "Start - eligible (t3 to t4)"),
    _stage("restart_launch", "From the next attempt's start to its first log line.", "t4 to t5"),
    _stage("restart_load", "From the first log line to the end of the checkpoint load.", "t5 to t6"),
    _stage("restart_warm_up", "From the loaded checkpoint (or first log line) to the first step.", "t6 to t7"),
    _stage("time_to_first_step", "From the last good step to the first one after the restart.", "t0 to t7"),
    _stage("time_to_recover", "From the last good step until the run is where it had been.", "t0 to t8, catch-up too"),
    Metric(
        "interruption_cost",
        "gpu_s",
        "GPU-seconds that an interruption cost: lost and stalled time of its attempt, and startup of the next one.",
        "lost + stalled (not what restarts in place took) + startup of the attempt that followed",
        "interruption_costs",
        "app.results.interruptions.interruption_costs",
        "none: a census; null where more than a tenth was not seen, or no log tells what was kept",
        "our definitions 5.2",
    ),
    Metric(
        "lost_imputed",
        "gpu_s",
        "GPU-seconds that infrastructure interruptions cost, as Meta imputes them: an assumption.",
        "sum of min(runtime, 30 min) x GPUs over infrastructure interruptions",
        "interruptions",
        "metrics.theory.lost_goodput_gpu_s_expr",
        "none: assumed",
        "Kokolis et al. (HPCA 2025) section III-C, first order",
    ),
    Metric(
        "lost_imputed_first_order",
        "gpu_s",
        "GPU-seconds that infrastructure interruptions cost their own attempts, as Meta imputes them.",
        "sum of min(runtime, 30 min) x GPUs over infrastructure interruptions",
        "interruptions",
        "metrics.failures.second_order.second_order_loss",
        "none: assumed",
        _META,
    ),
    Metric(
        "lost_imputed_second_order",
        "gpu_s",
        "GPU-seconds that attempts lost that were preempted for one that infrastructure had interrupted before.",
        "sum of min(runtime, 30 min) x GPUs over preemptions for an attempt whose predecessor infrastructure ended",
        "interruptions",
        "metrics.failures.second_order.second_order_loss",
        "none: assumed",
        _META,
    ),
    Metric(
        "second_order_share",
        "ratio",
        "Share of what failures cost that is second order, imputed.",
        "lost_imputed_second_order / (lost_imputed_first_order + lost_imputed_second_order)",
        "interruptions",
        "metrics.failures.second_order.second_order_loss",
        "bounds: preemptions for nobody knows whom counted as none (low) and all (high) second order",
        f"{_META} (16 % on Meta's clusters)",
    ),
    Metric(
        "lost_first_order",
        "gpu_s",
        "GPU-seconds that infrastructure interruptions are known to have cost their own runs.",
        "sum of interruption_cost over infrastructure interruptions whose cost can be told",
        "interruption_costs",
        "metrics.failures.second_order.second_order_loss",
        "none: the least it can be",
        _META,
    ),
    Metric(
        "lost_second_order",
        "gpu_s",
        "GPU-seconds that preemptions for runs coming back from a failure are known to have cost.",
        "sum of interruption_cost over second-order preemptions whose cost can be told",
        "interruption_costs",
        "metrics.failures.second_order.second_order_loss",
        "none: the least it can be",
        _META,
    ),
)
