"""A claim, its measurement and its verdict: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import datetime

    from metrics.statistics import Direction, Verdict

Kind = Literal["delivered", "capability"]


@dataclass(frozen=True)
class Scope:
    """The part of a cluster that a claim is about; what is None does not narrow it.

    Attributes:
        partition: of attempts; of metrics on capacity, the nodes that an inventory places in it.
        account: of attempts.
        user: of attempts.
        nodes: pattern: `gpu[001-128],login*`.
        gpu_model: as the inventory calls it.
        gpus_min: smallest job, in GPUs.
        gpus_max: largest job.
    """

    partition: str | None = None
    account: str | None = None
    user: str | None = None
    nodes: str | None = None
    gpu_model: str | None = None
    gpus_min: float | None = None
    gpus_max: float | None = None

    def words(self) -> str | None:
        """The scope in words; None where it is the whole cluster.

        >>> Scope(partition="train", gpus_min=512).words()
        'partition train, jobs of at least 512 GPUs'
        """
        names = ("partition", "account", "user", "nodes", "gpu_model")
        parts = [f"{name.replace('_', ' ')} {value}" for name in names if (value := getattr(self, name)) is not None]
        parts += [f"jobs of at least {self.gpus_min:,.10g} GPUs"] if self.gpus_min is not None else []
        parts += [f"jobs of at most {self.gpus_max:,.10g} GPUs"] if self.gpus_max is not None else []
        return ", ".join(parts) or None


@dataclass(frozen=True)
class Exclusion:
    """Time that a claim leaves out, of numerator and denominator both: on some nodes, or on all.

    Or, with `category`, all GPU-time of one category of the ledger. `calendar` is the file of agreed maintenance that
    it comes from.
    """

    reason: str
    since: datetime | None = None
    until: datetime | None = None
    nodes: str | None = None
    partition: str | None = None
    category: str | None = None
    calendar: str | None = None

    def words(self) -> str:
        """Excluded GPU-time, and the reason.

        >>> Exclusion("not ours", category="other_work").words()
        'all other_work: not ours'
        """
        if self.category is not None:
            return f"all {self.category}: {self.reason}"
        where = f" on {self.nodes}" if self.nodes else ""
        where = f" in the partition {self.partition}" if self.partition else where
        when = " to ".join(f"{moment:%Y-%m-%dT%H:%M:%SZ}" for moment in (self.since, self.until) if moment)
        origin = f" ({self.calendar})" if self.calendar else ""
        return f"{when}{where}: {self.reason}{origin}"


@dataclass(frozen=True)
class Claim:
    """A claim as quoted, and as it is tested.

    `quoted` are the words used. `read_as` is what is tested instead, since words such as "up to 96 %" cannot be
    refuted by themselves. `failure_class` and `population` are of an MTTF: which interruptions count, and whether jobs
    of all sizes are evidence for the claimed one (pooled, by the number of GPUs) or only those within 6.25 % of it
    (bucket). `flop_convention` and `dtype` are of an MFU: how FLOP are counted, and whose dense peak they are put over
    (None: the configured convention, and the fastest data type that the run's log names). `base_gpus`, `scaling` and
    `basis` are of a scaling efficiency: the smaller size, what both sizes have in common, and what is compared. `runs`
    is a pattern of run ids (`llama-*`), `tokens` the target of a time to train that no log records, `score` how its
    runs make one time: their mean, or MLPerf's official result. `window` is the claim's own period, in the words of
    the claims file, and `zone` the time zone in whose midnights it begins and ends (None: UTC).
    """

    id: str
    metric: str
    quoted: str
    read_as: str
    kind: Kind
    target: float
    direction: Direction
    unit: str
    gpus: float | None = None
    min_run_s: float = 0.0
    flop_convention: str | None = None
    dtype: str | None = None
    failure_class: Literal["infrastructure", "unplanned"] = "infrastructure"
    population: Literal["pooled", "bucket"] = "pooled"
    base_gpus: float | None = None
    scaling: Literal["strong", "weak"] | None = None
    basis: Literal["tokens", "time"] = "tokens"
    runs: str | None = None
    tokens: float | None = None
    score: Literal["mean", "mlperf"] = "mean"
    scope: Scope = Scope()
    window: str | None = None
    zone: str | None = None
    exclusions: tuple[Exclusion, ...] = ()

    @property
    def narrowed(self) -> str | None:
        """Difference of the claim from the cluster's headline of the period (scope, window), in words."""
        parts = [self.scope.words()]
        parts += [f"in {self.window}" if self.window else None]
        parts += [f"over the dense {self.dtype.upper()} peak" if self.dtype else None]
        left_out = len(self.exclusions)
        parts += [f"with {left_out} exclusion{'s' if left_out > 1 else ''}" if left_out else None]
        if self.metric == "mttf":
            parts += ["all unplanned failures" if self.failure_class == "unplanned" else None]
            parts += ["jobs of that size only" if self.population == "bucket" else None]
        parts += [f"runs {self.runs}" if self.runs else None]
        parts += ["the runs without the fastest and the slowest" if self.score == "mlperf" else None]
        return ", ".join(each for each in parts if each) or None


@dataclass(frozen=True)
class Measurement:
    """The measurement of a claim's metric; None where there are no data.

    Attributes:
        value: the number.
        low: lower end that decides.
        high: upper end.
        n: events, runs or steps behind it.
        needed: what would still decide.
        method: how the ends were made.
        numerator: above the line.
        denominator: below it.
        beside: what is shown with the verdict and does not decide, each labelled: one-sided results, expected values.
        level: the kind of evidence in words.
        excluded_s: seconds of the window that were left out.
        excluded_gpu_s: GPU-seconds that were left out; None where no GPU-time is counted.
        evidence: shares of the denominator by kind: log, telemetry, accounting, assumed.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    needed: str | None = None
    method: str = ""
    numerator: float | None = None
    denominator: float | None = None
    beside: tuple[str, ...] = ()
    level: str | None = None
    excluded_s: float = 0.0
    excluded_gpu_s: float | None = None
    evidence: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Judged:
    """A claim with its measurement and verdict.

    Attributes:
        claim: as quoted and as tested.
        measured: its measurement.
        verdict: on the two.
        since: the beginning of the measured time.
        until: its end.
        adjudications: corrections that bear on it.
        share: of its period that the data cover.
    """

    claim: Claim
    measured: Measurement
    verdict: Verdict
    since: datetime | None = None
    until: datetime | None = None
    adjudications: int = 0
    share: float = 1.0
