"""Published metrics of what telemetry sees."""

from metrics.catalog.entry import Metric

METRICS = (
    Metric(
        "gpu_util",
        "ratio",
        "Of the observed GPU-time of attempts, the share in which a kernel ran: an idle detector, no measure of work.",
        "sum of GPU utilisation x seconds / GPU-seconds with a utilisation, node checks left out",
        "attempt_activity",
        "metrics.telemetry.utilisation.utilisation",
        "none: a census of what samples tell; telemetry_coverage says of how much",
        "DCGM_FI_DEV_GPU_UTIL, and what other exporters have for it",
    ),
    Metric(
        "tensor_active",
        "ratio",
        "Of the observed GPU-time of attempts, the mean share of cycles in which the tensor pipe was active.",
        "sum of tensor activity x seconds / GPU-seconds with a tensor activity, node checks left out",
        "attempt_activity",
        "metrics.telemetry.utilisation.utilisation",
        "none: a census of what samples tell; telemetry_coverage says of how much",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE; NVIDIA DCGM user guide, profiling metrics",
    ),
    Metric(
        "idle_gpus",
        "ratio",
        "Of the observed GPU-time of attempts, the share in which the GPU was not active.",
        "GPU-seconds of attempts that were not active / those of which it is known, node checks left out",
        "attempt_activity",
        "metrics.telemetry.utilisation.utilisation",
        "none: a census of what samples tell; telemetry_coverage says of how much",
        "the ledger's rule of active GPUs (config: rules.active_tensor, active_gr_engine, active_gpu_util)",
    ),
    Metric(
        "telemetry_coverage",
        "ratio",
        "Of the GPU-time that attempts were allocated, the share that samples of their GPUs speak for.",
        "GPU-seconds observed and told whose they are / allocated GPU-seconds, node checks left out",
        "attempt_activity",
        "metrics.telemetry.utilisation.utilisation",
        "exact (a census)",
        "our definitions 5.2 (levels of evidence)",
    ),
    Metric(
        "filesystem_response",
        "s",
        "Mean time from a filesystem's request being sent to its answer, as the client's kernel counts it.",
        "response time per second / operations per second of the same mount, both over the time that samples tell",
        "node_samples_between",
        "metrics.telemetry.traffic.traffic",
        "none: a census of what samples tell",
        "mountstats (Linux NFS client): response time is round trip time; node_exporter, collector mountstats",
    ),
)
