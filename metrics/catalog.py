"""The one list of published metrics: what each is called, what it means, where its definition comes from.

The command line, the data dictionary, the README's table and (from step 2 on) boards and reports read this list.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A published number.

    Attributes:
        name: as in the column `metric`, and in claims.
        unit: of its value.
        summary: one sentence for a table of contents.
        formula: numerator over denominator, in the words of the data dictionary.
        query: the named query whose rows it is computed from.
        function: where the arithmetic is, for who wants to check it.
        interval: how uncertainty is given.
        source: publication, or the section of our definitions.
    """

    name: str
    unit: str
    summary: str
    formula: str
    query: str
    function: str
    interval: str
    source: str


_BOUNDS = "bounds: unattributed and assumed time counted all unproductive (low) and all productive (high)"

METRICS: tuple[Metric, ...] = (
    Metric(
        "goodput_allocated",
        "ratio",
        "Share of allocated GPU-time that ended up as kept training steps.",
        "productive GPU-seconds / allocated GPU-seconds",
        "ledger_sums",
        "metrics.goodput.goodput",
        _BOUNDS,
        "goodput_alloc of our definitions 5.2; queueing and idle GPUs are not in it",
    ),
    Metric(
        "goodput_capacity",
        "ratio",
        "Share of all GPU-time there was that ended up as kept training steps.",
        "productive GPU-seconds / GPU-seconds of all nodes in the inventory",
        "ledger_sums",
        "metrics.goodput.goodput",
        _BOUNDS,
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
    Metric(
        "ettr",
        "ratio",
        "Of the time runs wanted to train, the share in which they did; queueing counts.",
        "productive GPU-seconds / (queued + scheduled) GPU-seconds of the runs, initial queue included",
        "ledger_sums",
        "metrics.ettr.ettr_by_run",
        _BOUNDS,
        "Kokolis et al. (HPCA 2025) section II: ETTR = R / (Q + R + U)",
    ),
    Metric(
        "ettr_without_initial_queue",
        "ratio",
        "ETTR from the first start on.",
        "productive GPU-seconds / (queued after the first start + scheduled) GPU-seconds of the runs",
        "ledger_sums",
        "metrics.ettr.ettr_by_run",
        _BOUNDS,
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
    Metric(
        "mfu",
        "ratio",
        "Of what the GPUs of logged runs could have computed, the share that the model needed.",
        "model FLOP of the kept steps / (GPUs x dense peak FLOP/s x seconds of these steps)",
        "steps",
        "metrics.mfu.fleet",
        "BCa bootstrap over blocks of consecutive steps, 95 %",
        "Chowdhery et al. (PaLM, arXiv 2204.02311) appendix B; the FLOP convention is part of the value",
    ),
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
    Metric(
        "gpu_util",
        "ratio",
        "Of the observed GPU-time of attempts, the share in which a kernel ran: an idle detector, no measure of work.",
        "sum of GPU utilisation x seconds / GPU-seconds with a utilisation, node checks left out",
        "attempt_activity",
        "metrics.utilisation.utilisation",
        "none: a census of what samples tell; telemetry_coverage says of how much",
        "DCGM_FI_DEV_GPU_UTIL, and what other exporters have for it",
    ),
    Metric(
        "tensor_active",
        "ratio",
        "Of the observed GPU-time of attempts, the mean share of cycles in which the tensor pipe was active.",
        "sum of tensor activity x seconds / GPU-seconds with a tensor activity, node checks left out",
        "attempt_activity",
        "metrics.utilisation.utilisation",
        "none: a census of what samples tell; telemetry_coverage says of how much",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE; NVIDIA DCGM user guide, profiling metrics",
    ),
    Metric(
        "idle_gpus",
        "ratio",
        "Of the observed GPU-time of attempts, the share in which the GPU was not active.",
        "GPU-seconds of attempts that were not active / those of which it is known, node checks left out",
        "attempt_activity",
        "metrics.utilisation.utilisation",
        "none: a census of what samples tell; telemetry_coverage says of how much",
        "the ledger's rule of active GPUs (config: rules.active_tensor, active_gr_engine, active_gpu_util)",
    ),
    Metric(
        "telemetry_coverage",
        "ratio",
        "Of the GPU-time that attempts were allocated, the share that samples of their GPUs speak for.",
        "GPU-seconds observed and told whose they are / allocated GPU-seconds, node checks left out",
        "attempt_activity",
        "metrics.utilisation.utilisation",
        "exact (a census)",
        "our definitions 5.2 (levels of evidence)",
    ),
    Metric(
        "filesystem_response",
        "s",
        "Mean time from a filesystem's request being sent to its answer, as the client's kernel counts it.",
        "response time per second / operations per second of the same mount, both over the time that samples tell",
        "node_samples_between",
        "metrics.node_traffic.traffic",
        "none: a census of what samples tell",
        "mountstats (Linux NFS client): response time is round trip time; node_exporter, collector mountstats",
    ),
)

BY_NAME = {metric.name: metric for metric in METRICS}
