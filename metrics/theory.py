"""Published closed forms for failures, checkpoint intervals and lost goodput.

Plain numbers in, plain numbers out. Use them for the *expected* value to compare with a measured one, and to
read a vendor's headline back into the rate or the minutes it implies.

Times are seconds (`_s`) or days (`_d`). A failure rate is stored per GPU-day, because nodes differ in
their number of GPUs; per 1000 node-days is what papers print.

Sources, by the short names used below:
    Meta: Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters",
        HPCA 2025, arXiv 2410.21680 (v2 unless noted).
    Saxena: Saxena et al., NVIDIA, arXiv 2410.18124.
    Young: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 1974.
    Daly: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
        Future Generation Computer Systems 2006.
"""

import math

import polars as pl

GPUS_PER_NODE = 8
"""GPUs of a DGX or HGX node; GB200 and GB300 nodes have 4."""

META_IMPUTED_LOSS_S = 1800.0
"""Half of an assumed hourly checkpoint interval (Meta, lost goodput)."""

_NODE_DAYS = 1000.0


# --- failure rate and MTTF ---------------------------------------------------------------------------


def failures_per_gpu_day(per_1000_node_days: float, *, gpus_per_node: int = GPUS_PER_NODE) -> float:
    """Failures per GPU-day of a rate printed per 1000 node-days.

    `per_1000_node_days / (1000 * gpus_per_node)`. Exact; the node size must be that of the source.

    Meta's RSC-1 rate, 6.50 per 1000 node-days (arXiv 2410.21680, r_f):

    >>> failures_per_gpu_day(6.50)
    0.0008125
    """
    return per_1000_node_days / (_NODE_DAYS * gpus_per_node)


def failures_per_1000_node_days(failures_per_gpu_day: float, *, gpus_per_node: int = GPUS_PER_NODE) -> float:
    """Failures per 1000 node-days of a rate per GPU-day: the way papers print it.

    `failures_per_gpu_day * 1000 * gpus_per_node`. Exact.

    CoreWeave's 3,748.25 GPU-days per failure ("CoreWeave Training Benchmarks", August 2025):

    >>> round(failures_per_1000_node_days(1 / 3748.25), 4)
    2.1343
    """
    return failures_per_gpu_day * _NODE_DAYS * gpus_per_node


def mttf_d(failures_per_gpu_day: float, gpus: float) -> float:
    """Mean time to failure, in days, of a job on `gpus` GPUs; infinite at rate zero.

    `1 / (gpus * failures_per_gpu_day)`, Meta's `MTTF = 1 / (N_nodes * r_f)` counted in GPUs. It holds
    when failures are independent and every GPU has the same constant rate. Meta found it to match
    4 to 512 nodes, and yet reports 7.9 h measured at 1024 GPUs where its own rate gives 28.8 h:
    quote an extrapolated size as "assumes 1/N".

    >>> round(mttf_d(failures_per_gpu_day(6.50), gpus=1024) * 24, 2)
    28.85
    """
    failures_per_d = gpus * failures_per_gpu_day
    return 1 / failures_per_d if failures_per_d else math.inf


# --- expected ETTR -----------------------------------------------------------------------------------


# --- checkpoint interval -----------------------------------------------------------------------------


def young_interval_s(write_s: float, mttf_s: float) -> float:
    """Training time between checkpoints that loses least, first order; also called Daly-Young.

    `sqrt(2 * w * MTTF)`, without the write itself. Valid while the write is short against the MTTF
    (Young 1974; Meta v2 writes it `dt* = sqrt(2*w/lambda)`). Time to recover, where it counts, is
    added to the MTTF.

    A 10 s write, MTTF 185.58 min; result in minutes:

    >>> round(young_interval_s(10, 185.58 * 60) / 60, 3)
    7.865
    """
    return math.sqrt(2 * write_s * mttf_s)


def daly_interval_s(write_s: float, mttf_s: float) -> float:
    """Training time between checkpoints that loses least, Daly's higher-order estimate.

    `sqrt(2*w*M) * (1 + sqrt(w/(2M))/3 + w/(18M)) - w` for w < 2M, else M; M is the MTTF, and the
    write itself is excluded. Valid for any w (Daly 2006, the higher-order estimate).

    A 10 s write, MTTF 185.58 min; result in minutes:

    >>> round(daly_interval_s(10, 185.58 * 60) / 60, 3)
    7.754
    """
    if write_s >= 2 * mttf_s:
        return mttf_s
    series = 1 + math.sqrt(write_s / (2 * mttf_s)) / 3 + write_s / (18 * mttf_s)
    return math.sqrt(2 * write_s * mttf_s) * series - write_s


def availability_interval_s(write_s: float, mttf_s: float, recovery_s: float) -> float:
    """Time from one checkpoint to the next, write *included*, that gives the best availability.

    `w + sqrt(2*(M + Tr)*w + w^2)`, with M the MTTF and Tr the time to recover. Valid while the
    interval is short against M + Tr (Saxena, arXiv 2410.18124, optimal checkpoint interval).

    A 10 s write, MTTF 185.58 min, recovery 5 min; result in minutes:

    >>> round(availability_interval_s(10, 185.58 * 60, recovery_s=300) / 60, 3)
    8.139
    """
    return write_s + math.sqrt(2 * (mttf_s + recovery_s) * write_s + write_s**2)


# --- goodput and loss --------------------------------------------------------------------------------


def lost_goodput_gpu_s_expr(runtime_s: pl.Expr, gpus: pl.Expr, *, cap_s: float = META_IMPUTED_LOSS_S) -> pl.Expr:
    """GPU-seconds of training an interruption is taken to have destroyed, where no log shows it.

    `min(runtime_s, cap_s) * gpus`. The cap is half an assumed hourly checkpoint interval, so this is an imputed value
    and must be labelled so; with logs, count the steps done again instead (Meta, lost goodput: first order for the
    failed job, second order for jobs preempted by its return). Reads a runtime in seconds and a number of GPUs; null
    where either is null.

    >>> frame = pl.DataFrame({"runtime_s": [18000.0, 720.0, None], "gpus": [1024, 8, 8]})
    >>> frame.select(lost_goodput_gpu_s_expr(pl.col("runtime_s"), pl.col("gpus")) / 3600).to_series().to_list()
    [512.0, 1.6, None]
    """
    # clip keeps null; min_horizontal would skip it and charge the full cap.
    return runtime_s.clip(upper_bound=cap_s) * gpus
