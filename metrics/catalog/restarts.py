"""Published metrics of interruptions and restarts."""

from metrics.catalog.entry import Metric

METRICS = (
    Metric(
        "time_to_job_restart",
        "s",
        "From the end of an interrupted attempt to the start of the next one of the run.",
        "Start of the next attempt - End of the interrupted one (t2 to t4); median, p90 and mean",
        "restarts",
        "metrics.restarts.restart_summary",
        "order statistics of the median, at least 95 %",
        "our definitions 4.3 (the headline 'about 90 s' has no published definition)",
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
)
