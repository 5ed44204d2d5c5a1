"""The JSON form of the SLA report as types: its published schema is generated from them.

Every key is there in every report; what is unknown is null. A key that is not declared here is a fault (`tests` hold
the reports against the schema).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from app.reports.sla.model_parts import (
    BudgetPart,
    Change,
    DataQuality,
    FailureRate,
    GpuTime,
    Incidents,
    Measured,
    Moment,
    OutcomePart,
    PublishedRate,
    ReportPart,
    Sha256,
    TrendRow,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

DRAFT = "https://json-schema.org/draft/2020-12/schema"


class PeriodPart(ReportPart):
    """The period that the report is about."""

    asked: str = Field(description="as requested, in the contract's zone")
    since: Moment
    until: Moment = Field(description="not included")


class Gap(ReportPart):
    """Time of the period without data."""

    since: Moment
    until: Moment


class CoveragePart(ReportPart):
    """The part of the period that data cover; numbers are of this part."""

    since: Moment
    until: Moment
    share: float = Field(ge=0, le=1, description="of the period")
    missing_s: float = Field(ge=0)
    gaps: tuple[Gap, ...]


class DataPart(ReportPart):
    """The state of the warehouse."""

    version: int
    computed_at: Moment
    ledger_since: Moment
    ledger_until: Moment
    loads_since_computed: int = Field(description="loads that the numbers do not contain yet")


class Claims(ReportPart):
    """Where the claims come from."""

    file: str | None = Field(description="null: the vendor's headlines that come with Trackside")
    sha256: Sha256 | None


class StatusPart(ReportPart):
    """Whether the report is final."""

    final: bool
    cutoff: Moment
    cutoff_days: int
    reasons: tuple[str, ...] = Field(description="why it is not final")


class CalendarPart(ReportPart):
    """A calendar of agreed maintenance."""

    file: str
    sha256: Sha256
    events: int = Field(description="within the period")


class ContractPart(ReportPart):
    """The contract; null where the claims file states nothing of it."""

    agreed: bool
    provider: str | None
    customer: str | None
    number: str | None
    monthly_fee: str | None = Field(description="a decimal number as text")
    currency: str | None
    credit_cap_percent: float
    zone: str
    calendars: tuple[CalendarPart, ...]


class Credits(ReportPart):
    """All credits of the period together."""

    agreed: bool
    least_percent: float = Field(description="due in any case")
    most_percent: float = Field(description="the most that may be due")
    least_amount: str | None = Field(description="a decimal number as text; of calendar months only")
    most_amount: str | None
    currency: str | None


class SummaryPart(ReportPart):
    """How many objectives have each verdict."""

    supported: int
    refuted: int
    undetermined: int


class Objective(Measured):
    """An objective: what was promised, what was measured, and how sure that is."""

    id: str
    verdict: Verdict
    quoted: str = Field(description="the words of the promise")
    read_as: str = Field(description="the statement that is tested")
    kind: Literal["delivered", "capability"]
    metric: str
    unit: Literal["ratio", "d", "s"]
    direction: Literal["at_least", "at_most"]
    target: float
    gpus: float | None
    min_run_s: float
    flop_convention: str | None
    dtype: str | None
    method: str | None
    needed: str | None = Field(description="what would decide an undetermined objective")
    narrowed: str | None = Field(description="to which part of the cluster, without which time")
    beside: tuple[str, ...]
    level: str | None = Field(description="kind of evidence in words")
    excluded_s: float
    excluded_gpu_seconds: float | None
    adjudications: int = Field(description="corrections by persons that count in it")
    numerator: float | None
    denominator: float | None
    evidence: dict[str, float] = Field(description="share of the number by kind of evidence")
    note: str | None
    definition: str
    outcome: OutcomePart
    budget: BudgetPart | None
    trend: tuple[TrendRow, ...] = Field(description="the periods before, the last one last")
    before: Change | None


class HeadlinePart(ReportPart):
    """A headline number of the whole cluster."""

    metric: str
    title: str
    unit: str
    value: float | None
    numerator: float | None
    denominator: float | None
    n: int | None
    bound_low: float | None
    bound_high: float | None
    ci_low: float | None
    ci_high: float | None
    evidence: dict[str, float]
    note: str | None
    show: str = Field(description="the command that prints it")


class DayRatio(ReportPart):
    """A ratio on one day."""

    day: str
    value: float | None
    bound_low: float | None
    bound_high: float | None
    numerator: float | None
    denominator: float | None


class Daily(ReportPart):
    """Day by day (UTC)."""

    days: tuple[str, ...]
    gpu_seconds: tuple[dict[str, str], ...] = Field(description="by category, a decimal number as text; one per day")
    metrics: dict[str, tuple[DayRatio, ...]]


class ExclusionPart(ReportPart):
    """What a claim leaves out."""

    claim: str
    says: str


class Exclusions(ReportPart):
    """Everything that claims leave out."""

    declared: tuple[ExclusionPart, ...]
    gpu_seconds: str = Field(description="of all claims together, a decimal number as text")


class Adjudication(ReportPart):
    """A correction by a person."""

    id: str
    author: str
    made_at: Moment
    says: str
    reason: str


class Value(ReportPart):
    """What a report gives for an objective."""

    value: float | None
    low: float | None
    high: float | None
    verdict: Verdict | None
    no_upper_limit: bool


class CorrectionPart(ReportPart):
    """An objective of an earlier report for which the data give something else now."""

    objective: str
    unit: str
    was: Value
    now: Value


class Corrected(ReportPart):
    """Corrections to an earlier report."""

    period: str
    sha256: Sha256
    data_version: int
    claims: Claims
    changes: tuple[CorrectionPart, ...]


class Definition(ReportPart):
    """A metric as the catalog defines it."""

    metric: str
    unit: str
    says: str
    definition: str
    uncertainty: str
    source: str
    computed_by: str


class LedgerCategory(ReportPart):
    """A category of GPU-time."""

    category: str
    state: str
    title: str
    says: str


class Command(ReportPart):
    """A command that reproduces numbers of the report."""

    what: str
    command: str


class SlaReport(ReportPart):
    """The SLA report of Trackside."""

    report: Literal["sla"]
    form_version: Literal[2] = Field(description="counts up when a reader would have to change")
    trackside: str = Field(description="version that made it")
    cluster: str
    period: PeriodPart
    covered: CoveragePart
    data: DataPart
    claims: Claims
    status: StatusPart
    contract: ContractPart
    credits: Credits
    summary: SummaryPart
    objectives: tuple[Objective, ...]
    headlines: tuple[HeadlinePart, ...]
    gpu_time: GpuTime
    daily: Daily
    incidents: Incidents
    failure_rates: tuple[FailureRate, ...]
    published_rates: tuple[PublishedRate, ...]
    exclusions: Exclusions
    adjudications: tuple[Adjudication, ...]
    corrected: Corrected | None = Field(description="null: no earlier report was given")
    definitions: tuple[Definition, ...]
    ledger_categories: tuple[LedgerCategory, ...]
    constants: dict[str, Any] = Field(description="settings that the numbers depend on")
    data_quality: DataQuality
    reproduce: tuple[Command, ...]
    sha256: Annotated[Sha256, Field(description="over all else: JSON with sorted keys, no blanks, UTF-8")]


def schema() -> Mapping[str, Any]:
    """The published JSON schema (draft 2020-12)."""
    return {"$schema": DRAFT, **SlaReport.model_json_schema(mode="serialization")}
