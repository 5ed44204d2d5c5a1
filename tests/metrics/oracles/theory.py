"""Published closed forms of the expected ETTR, and what headlines imply: oracles of `metrics.ettr.expected`.

Sources, by the short names used below:
    Meta: Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters",
        HPCA 2025, arXiv 2410.21680 (v2 unless said).
    Google: "Introducing ML Productivity Goodput", Google Cloud blog, 10 April 2024.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from metrics.theory import META_IMPUTED_LOSS_S


def failures_per_gpu_day_of_mttf(mttf_d: float, gpus: float) -> float:
    """Failures per GPU-day that a mean time to failure at one job size implies.

    `1 / (mttf_d * gpus)`, the inverse of :func:`mttf_d` and under the same assumptions (Meta, r_f).

    Meta's measured 7.9 h at 1024 GPUs means 337.1 GPU-days per failure:

    >>> round(1 / failures_per_gpu_day_of_mttf(7.9 / 24, gpus=1024), 1)
    337.1
    """
    return 1 / (mttf_d * gpus)


@dataclass(frozen=True, kw_only=True)
class EttrInputs:
    """What the expected ETTR of a job run depends on; all times in seconds.

    Failures are Poisson in *scheduled* time, with mean `mttf_s` between them at the run's size.

    Attributes:
        mttf_s: Mean scheduled time to failure, 1/lambda; infinite if nothing fails.
        restart_s: Restart overhead u0: from the start of an attempt to training.
        checkpoint_interval_s: Training time dt between two checkpoints.
        checkpoint_write_s: Time w that one checkpoint write blocks training.
        queue_s: Mean queue wait q, at submission and after each failure.
    """

    mttf_s: float
    restart_s: float
    checkpoint_interval_s: float
    checkpoint_write_s: float = 0.0
    queue_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse times that mean nothing: no training between checkpoints, or a negative duration."""
        if not (self.mttf_s > 0 and self.checkpoint_interval_s > 0):
            message = f"mttf_s and checkpoint_interval_s must be above zero: {self}"
            raise ValueError(message)
        if not min(self.restart_s, self.checkpoint_write_s, self.queue_s) >= 0:
            message = f"restart_s, checkpoint_write_s and queue_s must not be negative: {self}"
            raise ValueError(message)

    @property
    def lost_share(self) -> float:
        """Share of scheduled time lost to failures, first order: `(u0 + dt/2) / mttf`.

        Above about 0.1 the approximations below read low and :func:`ettr_exact` is the one to use.
        """
        return (self.restart_s + self.checkpoint_interval_s / 2) / self.mttf_s

    @property
    def training_share(self) -> float:
        """Share of training time left by checkpoint writes: `1 / (1 + w/dt)`."""
        return 1 / (1 + self.checkpoint_write_s / self.checkpoint_interval_s)


def ettr(inputs: EttrInputs) -> float:
    """Expected ETTR (0-1) of a long run, Meta's closed form; queue time is not in it.

    `(1 - lambda*(u0 + dt/2)) / (1 + w/dt)`, and 0 where the lost share reaches 1. First order in
    lambda: good while `lost_share` is below about 0.1, low above that (Meta v2, expected ETTR).

    2000 nodes at 6.50 failures per 1000 node-days, restart 5 min, hourly checkpoints; Meta prints 0.7:

    >>> rsc_1 = EttrInputs(mttf_s=86400 / 13, restart_s=300, checkpoint_interval_s=3600)
    >>> round(ettr(rsc_1), 4)
    0.684
    """
    return max(0.0, 1 - inputs.lost_share) * inputs.training_share


def ettr_with_queue(inputs: EttrInputs) -> float:
    """Expected ETTR (0-1) of a long run that queues again after every failure.

    `(1 - lambda*(u0 + dt/2)) / (1 + lambda*q) / (1 + w/dt)`: :func:`ettr` with one queue wait for
    each failure. Same regime. Derived here from Meta v1's definitions, W = Q + R + U and
    ETTR = R / W (arXiv 2410.21680v1); Meta's own printed form was not available as text.

    8000 GPUs, 1 min in the queue, checkpoints every 30 min; Meta prints 0.9:

    >>> run = EttrInputs(mttf_s=86400 / 6.5, restart_s=300, checkpoint_interval_s=1800, queue_s=60)
    >>> round(ettr_with_queue(run), 4)
    0.9056
    """
    return ettr(inputs) / (1 + inputs.queue_s / inputs.mttf_s)


def ettr_of_run(inputs: EttrInputs, productive_s: float) -> float:
    """Expected ETTR (0-1) of one run that needs `productive_s` of training, first start included.

    `S = (R + u0) / (1 - lambda*(u0 + dt/2))` is the scheduled time, `W = S * (1 + lambda*q) + q` the
    wall time, and `R / W / (1 + w/dt)` the result; 0 where the lost share reaches 1. Grows to
    :func:`ettr_with_queue` as R grows. Same regime and origin as there; the factor for checkpoint
    writes is carried over from the long run.

    The run above, with 7 days of training:

    >>> run = EttrInputs(mttf_s=86400 / 6.5, restart_s=300, checkpoint_interval_s=1800, queue_s=60)
    >>> round(ettr_of_run(run, productive_s=7 * 86400), 4)
    0.9051
    """
    if inputs.lost_share >= 1:
        return 0.0
    scheduled_s = (productive_s + inputs.restart_s) / (1 - inputs.lost_share)
    wall_s = scheduled_s * (1 + inputs.queue_s / inputs.mttf_s) + inputs.queue_s
    return productive_s / wall_s * inputs.training_share


def ettr_exact(inputs: EttrInputs) -> float:
    """Expected ETTR (0-1) of a long run under exponential failures, at any failure rate.

    `dt * exp(-lambda*u0) / ((exp(lambda*(dt + w)) - 1) * (1/lambda + q))`: the training saved by one
    attempt over the mean time from one start to the next. Exact when attempts are exponential and a
    failure throws away everything since the last finished checkpoint. Derived here, and checked by
    simulation in tests/metrics/test_theory.py.

    >>> rsc_1 = EttrInputs(mttf_s=86400 / 13, restart_s=300, checkpoint_interval_s=3600)
    >>> round(ettr_exact(rsc_1), 4)
    0.7202
    """
    rate = 1 / inputs.mttf_s
    if rate == 0:
        return inputs.training_share
    period_s = inputs.checkpoint_interval_s + inputs.checkpoint_write_s
    # The same form multiplied through by exp(-lambda*(dt + w)), which cannot overflow.
    saved_s = (
        inputs.checkpoint_interval_s * math.exp(-rate * (inputs.restart_s + period_s)) / -math.expm1(-rate * period_s)
    )
    return saved_s * rate / (1 + rate * inputs.queue_s)


def google_runtime_goodput(
    checkpoint_interval_s: float, since_checkpoint_s: float, reschedule_s: float, resume_s: float
) -> float:
    """Google's runtime goodput (0-1) of one checkpoint interval that ends in a failure.

    `(T_ckpt - t_ch) / (T_ckpt + t_re + t_rm)`. One interval's value, not a long-run average: intervals
    without a failure are not in it (Google, ML Productivity Goodput, runtime goodput).

    Hourly checkpoints, failure half-way, 5 min to reschedule and 5 min to resume:

    >>> round(google_runtime_goodput(3600, 1800, 300, 300), 5)
    0.42857
    """
    return (checkpoint_interval_s - since_checkpoint_s) / (checkpoint_interval_s + reschedule_s + resume_s)


def lost_s_per_failure(productive_share: float, mttf_s: float) -> float:
    """Seconds lost at each failure if an ETTR or goodput and an MTTF are both true.

    `(1 - productive_share) * mttf_s`. Assumes that failures are the only loss and that the loss is
    short against the MTTF. Ours: it reads a headline back into the recovery it implies.

    An ETTR of 97 % at an MTTF of 3.66 days leaves 158 minutes for each failure:

    >>> round(lost_s_per_failure(0.97, 3.66 * 86400) / 60, 1)
    158.1
    """
    return (1 - productive_share) * mttf_s


def lost_goodput_gpu_s(runtime_s: float, gpus: float, *, cap_s: float = META_IMPUTED_LOSS_S) -> float:
    """GPU-seconds of training an interruption is taken to have destroyed, where no log says.

    `min(runtime_s, cap_s) * gpus`. The cap is half an assumed hourly checkpoint interval, so this is
    an imputed value and must be labelled so; with logs, count the steps done again instead
    (Meta, lost goodput: first order for the failed job, second order for jobs preempted by its return).

    A 1024-GPU attempt that fails after 5 hours loses 512 GPU-hours:

    >>> lost_goodput_gpu_s(5 * 3600, 1024) / 3600
    512.0
    """
    return min(runtime_s, cap_s) * gpus
