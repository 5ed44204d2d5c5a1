"""Parts of the JSON form of the SLA report as types: measurements, GPU-time, failures, data quality."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Moment = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Decimals = Annotated[str, Field(pattern=r"^-?\d+(\.\d+)?$", description="a decimal number with all its digits")]
Verdict = Literal["supported", "refuted", "undetermined"]
Result = Literal["met", "missed", "undecided"]


class ReportPart(BaseModel):
    """A part of the report: its keys are all there, and there are no others."""

    model_config = ConfigDict(frozen=True, extra="forbid", title=None)


# Measurements ----------------------------------------------------------------------------------------------------


class Measured(ReportPart):
    """A measurement with what it lies between."""

    value: float | None
    low: float | None
    high: float | None = Field(description="null: unknown, or without limit where no_upper_limit is true")
    no_upper_limit: bool
    n: float | None


class TrendRow(Measured):
    """The objective in a period before; all null where there are no data."""

    period: str
    verdict: Verdict | None
    result: Result | None


class Change(ReportPart):
    """The difference to the period before."""

    period: str
    value: float | None
    difference: float | None
    apart: bool | None = Field(description="whether the ranges have no number in common; null: an end is unknown")


class Credit(ReportPart):
    """A step of the credit table."""

    beyond: float
    percent: float


class OutcomePart(ReportPart):
    """The outcome by the contract's rule."""

    rule: Literal["verdict", "value", "worse_end"]
    result: Result
    credits: tuple[Credit, ...]
    credit_least_percent: float
    credit_most_percent: float


class BudgetDay(ReportPart):
    """What was spent by the end of a day (UTC)."""

    day: str
    spent_low: float
    spent: float | None
    spent_high: float


class BudgetPart(ReportPart):
    """The error budget."""

    unit: str
    allowed: float
    spent: float | None
    spent_low: float
    spent_high: float | None
    state: Literal["exhausted", "left", "unknown"]
    by_day: tuple[BudgetDay, ...]


# GPU-time --------------------------------------------------------------------------------------------------------


class CategoryPart(ReportPart):
    """GPU-time of one cause and kind of evidence."""

    cause: str | None
    evidence: str
    gpu_seconds: Decimals
    share: float


class Category(ReportPart):
    """GPU-time of one category."""

    category: str
    state: str
    title: str
    gpu_seconds: Decimals
    gpu_hours: float
    share: float
    parts: tuple[CategoryPart, ...]


class GpuTime(ReportPart):
    """Every GPU-second by category."""

    capacity_gpu_seconds: Decimals
    capacity_note: str | None
    ledger_gpu_seconds: Decimals
    sums_to_capacity: bool
    categories: tuple[Category, ...]


# Failures --------------------------------------------------------------------------------------------------------


class Incident(ReportPart):
    """An attempt that infrastructure interrupted."""

    ended_at: Moment
    run_id: str
    attempt_no: int
    user: str | None
    account: str | None
    state: str
    cause: str
    node: str | None
    n_gpus: float | None
    runtime_s: float
    incident: str | None = Field(description="interruptions of one incident have the same")
    evidence: str
    detail: str | None
    restarted_at: Moment | None
    time_to_job_restart_s: float | None = Field(description="from the interruption to the next start")
    cost_gpu_hours: float | None = Field(description="lost, stalled and started again; null: not observed")


class NotShown(ReportPart):
    """Interruptions that are counted, not listed."""

    n: int
    gpus: float


class Incidents(ReportPart):
    """Interruptions by infrastructure, those of most GPUs first."""

    n: int
    n_incidents: int
    cost_gpu_hours: float = Field(description="of the interruptions of which it is known")
    n_without_cost: int = Field(description="interruptions of which it is not")
    shown: tuple[Incident, ...]
    not_shown: NotShown
    by_cause: dict[str, int]
    interruptions_by_class: dict[str, int]


class FailureRate(ReportPart):
    """A rate of failures, by class and size of job."""

    model_config = ConfigDict(serialize_by_alias=True)

    class_: str = Field(alias="class")
    counted: str
    size: str
    n_failures: int
    n_attempts: int
    n_censored: int
    exposure_gpu_days: float
    rate_per_gpu_day: float | None
    phi: float | None
    phi_p: float | None
    rate_low: float | None
    rate_high: float | None
    mttf_d: float | None
    mttf_low_d: float | None
    mttf_high_d: float | None
    note: str | None


class PublishedRate(ReportPart):
    """Our failure rate over one that others published."""

    model_config = ConfigDict(serialize_by_alias=True)

    reference: str
    like_with_like: bool = Field(description="whether failures are counted alike; if not, the note has the difference")
    class_: str = Field(alias="class", description="of our failures that are compared")
    size: str = Field(description="of our jobs that are compared")
    n_failures: int
    exposure_gpu_days: float
    rate_per_gpu_day: float | None
    reference_failures: int | None = Field(description="null: not published, so that the rate is a constant")
    reference_gpu_days: float | None
    reference_rate_per_gpu_day: float
    rate_ratio: float | None = Field(description="ours over theirs")
    ci_low: float | None = Field(description="of the ratio, 95 %")
    ci_high: float | None
    ci_method: str | None
    p_value: float | None
    note: str
    source: str


# Data quality ----------------------------------------------------------------------------------------------------


class SourceGap(ReportPart):
    """Time that a source does not cover."""

    since: Moment
    until: Moment
    covered_by: str | None


class SourceQuality(ReportPart):
    """A source: its loads and gaps."""

    source: str
    loads: int
    rows_read: int
    rows_loaded: int
    rows_duplicate: int
    rows_skipped: int
    rows_rejected: int
    covers_from: Moment | None
    covers_until: Moment | None
    share_of_period: float | None
    gaps: tuple[SourceGap, ...]
    warnings: tuple[str, ...]


class RejectedPart(ReportPart):
    """Input rows that were refused for one reason."""

    source: str
    reason: str
    n: int


class FailedCheck(ReportPart):
    """A data check that found rows."""

    name: str
    says: str
    n: int
    severity: Literal["stop", "warn"]


class DataQuality(ReportPart):
    """What the numbers rest on."""

    sources: tuple[SourceQuality, ...]
    rejected: tuple[RejectedPart, ...]
    checks: tuple[FailedCheck, ...]
    checks_are_of: tuple[str, ...] = Field(description="clusters that the checks are about")
