"""What a claims file may hold. A key that would not be applied is refused."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from app.claims.contract import CUTOFF_DAYS, Terms
from app.claims.node_patterns import valid_pattern
from app.errors import UsageError
from app.times import iso, parse_period, parse_time, zone_of
from ingest.settings import no_boolean
from metrics.catalog import BY_NAME, CLAIMABLE
from metrics.categories import ALLOCATED, CATEGORIES
from metrics.claims.contract import CreditStep, Rule
from metrics.claims.verdict import Claim, Exclusion, Scope
from metrics.mfu.mfu import Convention
from metrics.mfu.peaks import DTYPES, columns_of

SMALLEST_JOB, LARGEST_JOB = 0.001, 1e7
"""Sizes of jobs, in GPUs, that a claim can be about: accounting counts thousandths of a GPU."""

LONGEST_RUN_H = 1e6
"""Hours that no run has; a larger number is a typing error."""

LONGEST_TARGET = 1e9
"""Days or seconds that no claim has as its target."""

MOST_TOKENS = 1e18
"""Tokens that no run trains on."""

LONGEST_WINDOW_D = 36_500
"""Days of a rolling window."""

LONGEST_TEXT = 1000
"""Letters of a name, a pattern or a reason in the file."""

_ROLLING = re.compile(r"([1-9]\d{0,5})d")

_EVERY_SCOPE = ("partition", "account", "user", "nodes", "gpu_model", "gpus_min", "gpus_max")

SCOPES = {
    "gpu_time": _EVERY_SCOPE,
    "attempts": _EVERY_SCOPE,
    "capacity": ("partition", "nodes", "gpu_model"),
    "runs": ("partition", "account", "user", "gpus_min", "gpus_max"),
}
"""What a claim's scope may name, by the data of the metric: idle GPUs belong to no user, and a run queues for no
particular node."""

if TYPE_CHECKING:
    Metric = str
else:
    Metric = Literal[tuple(CLAIMABLE)]


def _metric(info: ValidationInfo) -> str | None:
    """The metric of the claim that is being parsed; None where that is a mistake itself."""
    metric: str | None = cast("dict[str, Any]", info.context).get("metric")
    return metric


def _moment(value: object) -> datetime:
    """A TOML time, or a time as text; without a zone it is UTC."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    if not isinstance(value, str):
        raise ValueError("not a time; write it like 2026-10-05T08:00")  # noqa: TRY004 - pydantic collects ValueErrors
    try:
        return parse_time(value)
    except UsageError as error:
        raise ValueError(str(error)) from None


def _data_type(value: str) -> str:
    """The column of the table of peaks that a data type means: `bf16`, `fp8`, `fp4` or `nvfp4`."""
    columns = columns_of(value)
    if len(columns) != 1:
        raise ValueError(
            f"{value!r} is no data type with a dense peak; there are: {', '.join(sorted(set(DTYPES.values())))}"
        )
    return columns[0]


def _zone(value: str) -> str:
    """The name of a time zone.

    Raises:
        ValueError: there is none of that name.
    """
    try:
        zone_of(value)
    except UsageError as error:
        raise ValueError(str(error)) from None
    return value


_NoBoolean = BeforeValidator(no_boolean)
Number = Annotated[float, _NoBoolean]
Zone = Annotated[str, AfterValidator(_zone)]
DataType = Annotated[str, AfterValidator(_data_type)]
Moment = Annotated[datetime, BeforeValidator(_moment)]
Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
Tokens = Annotated[Number, Field(gt=0, lt=MOST_TOKENS)]
Size = Annotated[Number, Field(ge=SMALLEST_JOB, lt=LARGEST_JOB)]


_MISSING = {
    ("mttf", "gpus"): "an MTTF holds for one job size: add the number of GPUs, such as gpus = 1024",
    ("time_to_train", "gpus"): "a time to train holds for one job size: add the number of GPUs, such as gpus = 1024",
    ("scaling_efficiency", "gpus"): "add the number of GPUs of the larger size, such as gpus = 1024",
    ("scaling_efficiency", "base_gpus"): "add the number of GPUs that they are compared with, such as base_gpus = 256",
    ("scaling_efficiency", "scaling"): 'add scaling = "strong" (the same global batch) or "weak" (per GPU)',
}
"""What to add where a metric's claim lacks a key that it requires."""


class ScopeEntry(BaseModel):
    """`[claim.scope]`: which part of the cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    partition: Text | None = None
    account: Text | None = None
    user: Text | None = None
    nodes: Text | None = None
    gpu_model: Text | None = None
    gpus_min: Size | None = None
    gpus_max: Size | None = None

    @field_validator("*")
    @classmethod
    def _is_honoured(cls, value: object, info: ValidationInfo) -> object:
        field, metric = cast("str", info.field_name), _metric(info)
        if value is not None and metric is not None and field not in (scopes := SCOPES[CLAIMABLE[metric].of]):
            raise ValueError(f"{metric} cannot be limited by {field}; its scope may name {', '.join(scopes)}")
        if field == "nodes" and isinstance(value, str):
            return valid_pattern(value)
        return value

    @model_validator(mode="after")
    def _has_a_size(self) -> ScopeEntry:
        if self.gpus_min is not None and self.gpus_max is not None and self.gpus_min > self.gpus_max:
            raise ValueError(f"gpus_min {self.gpus_min:g} is above gpus_max {self.gpus_max:g}: no job has such a size")
        return self


class ExclusionEntry(BaseModel):
    """`[[claim.exclusions]]`: an interval, or a category of the ledger, that is in neither part of the fraction."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: Text
    since: Moment | None = Field(default=None, alias="from")
    until: Moment | None = None
    nodes: Text | None = None
    partition: Text | None = None
    category: Text | None = None

    @field_validator("reason")
    @classmethod
    def _can_be_left_out(cls, value: str, info: ValidationInfo) -> str:
        metric = _metric(info)
        if metric is not None and not CLAIMABLE[metric].exclusions:
            raise ValueError(f"{metric} is of whole runs: name them by runs, scope and window instead")
        return value

    @field_validator("nodes", "partition")
    @classmethod
    def _is_honoured(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and _metric(info) == "mfu":
            raise ValueError("a training step uses all nodes of its run: exclude the whole interval, or nothing")
        return valid_pattern(value) if value is not None and info.field_name == "nodes" else value

    @field_validator("category")
    @classmethod
    def _is_counted(cls, value: str | None, info: ValidationInfo) -> str | None:
        metric = _metric(info)
        if value is None or metric is None:
            return value
        if not CLAIMABLE[metric].categories:
            raise ValueError(f"{metric} is not computed from the ledger's categories; exclude an interval instead")
        excludable = [
            name for name in (CATEGORIES if CLAIMABLE[metric].of == "capacity" else ALLOCATED) if name != "productive"
        ]
        if value not in excludable:
            raise ValueError(f"{metric} can exclude {', '.join(excludable)}; not {value!r}")
        return value

    @model_validator(mode="after")
    def _is_interval_or_category(self) -> ExclusionEntry:
        interval = (self.since, self.until, self.nodes, self.partition)
        if self.category is not None and any(each is not None for each in interval):
            raise ValueError(
                "an exclusion is an interval (from, until, and nodes or partition) or a category; write two exclusions"
            )
        if self.category is None and (self.since is None or self.until is None):
            raise ValueError("from and until are missing (or category, to exclude all GPU-time of one)")
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise ValueError(f"from {iso(self.since)} is not before until {iso(self.until)}")
        if self.nodes is not None and self.partition is not None:
            raise ValueError("nodes or partition, not both; write two exclusions")
        return self


class CreditEntry(BaseModel):
    """`[[claim.credits]]`: a step of the credit table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    percent: Number = Field(gt=0, le=100)
    below: Number | None = None
    above: Number | None = None

    @model_validator(mode="after")
    def _has_one_threshold(self) -> CreditEntry:
        if (self.below is None) == (self.above is None):
            raise ValueError(
                "write below (of at_least) or above (of at_most): the number beyond which the credit is due"
            )
        if not math.isfinite(self.beyond):
            raise ValueError("the number beyond which a credit is due is finite")
        return self

    @property
    def beyond(self) -> float:
        """The number beyond which the credit is due."""
        return cast("float", self.below if self.below is not None else self.above)


class ContractEntry(BaseModel):
    """`[contract]`: between whom, what is paid, and when maintenance is agreed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: Text | None = None
    customer: Text | None = None
    number: Text | None = None
    monthly_fee: Annotated[Decimal, _NoBoolean] | None = Field(default=None, gt=0, lt=Decimal("1e15"))
    currency: str | None = Field(default=None, pattern=r"^[A-Z]{3}$")
    credit_cap_percent: Number = Field(default=100.0, gt=0, le=100)
    cutoff_days: Annotated[int, _NoBoolean] = Field(default=CUTOFF_DAYS, ge=0, le=366)
    zone: Zone | None = None
    maintenance: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _has_a_currency(self) -> ContractEntry:
        if (self.monthly_fee is None) != (self.currency is None):
            raise ValueError('monthly_fee and currency belong together: currency = "EUR"')
        return self


class ClaimEntry(BaseModel):
    """A `[[claim]]` of a claims file. A key that would not be applied is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Text
    metric: Metric
    quoted: str
    read_as: str
    kind: Literal["delivered", "capability"]
    target: Number
    direction: Literal["at_least", "at_most"]
    gpus: Size | None = Field(default=None, validate_default=True)
    min_run_hours: Number | None = Field(default=None, ge=0, lt=LONGEST_RUN_H)
    flop_convention: Convention | None = None
    dtype: DataType | None = None
    failure_class: Literal["infrastructure", "unplanned"] | None = None
    population: Literal["pooled", "bucket"] | None = None
    base_gpus: Size | None = Field(default=None, validate_default=True)
    scaling: Literal["strong", "weak"] | None = Field(default=None, validate_default=True)
    basis: Literal["tokens", "time"] | None = None
    runs: Text | None = None
    tokens: Tokens | None = None
    score: Literal["mean", "mlperf"] | None = None
    window: Text | None = None
    scope: ScopeEntry = ScopeEntry()
    exclusions: tuple[ExclusionEntry, ...] = ()
    rule: Rule | None = None
    credits: tuple[CreditEntry, ...] = ()

    @field_validator("id")
    @classmethod
    def _is_its_own(cls, value: str, info: ValidationInfo) -> str:
        used = cast("set[str]", cast("dict[str, Any]", info.context)["used"])
        if value in used:
            raise ValueError(
                f"an earlier claim has the id {value!r}, too; an id names one verdict, so change one of them"
            )
        used.add(value)
        return value

    @model_validator(mode="before")
    @classmethod
    def _read_metric(cls, data: object, info: ValidationInfo) -> object:
        """Put the metric into the context: scope and exclusions are checked by what it can honour."""
        metric = data.get("metric") if isinstance(data, dict) else None
        cast("dict[str, Any]", info.context)["metric"] = metric if metric in list(CLAIMABLE) else None
        return data

    @field_validator("target")
    @classmethod
    def _can_be_met(cls, value: float, info: ValidationInfo) -> float:
        metric = info.data.get("metric")
        if metric is None:  # a mistake of its own
            return value
        unit = BY_NAME[metric].unit
        if unit != "ratio" and not 0 < value < LONGEST_TARGET:
            unit = {"d": "days", "s": "seconds"}[unit]
            raise ValueError(
                f"the target of {metric} is a number of {unit} above 0 and below {LONGEST_TARGET:g}, not {value:g}"
            )
        if unit == "ratio" and 1 < value <= 100:
            raise ValueError(f"the target of {metric} is a ratio between 0 and 1; {value:g} % is {value / 100:g}")
        if unit == "ratio" and not 0 <= value <= 1:
            raise ValueError(f"the target of {metric} is a ratio between 0 and 1, not {value:g}")
        return value

    @field_validator(
        *("gpus", "min_run_hours", "flop_convention", "dtype", "failure_class", "population"),
        *("base_gpus", "scaling", "basis", "runs", "tokens", "score"),
    )
    @classmethod
    def _applies(cls, value: object, info: ValidationInfo) -> object:
        field, metric = cast("str", info.field_name), info.data.get("metric")
        if metric is not None and value is None and field in CLAIMABLE[metric].required:
            raise ValueError(_MISSING[metric, field])
        if metric is not None and value is not None and field not in CLAIMABLE[metric].fields:
            of = " and ".join(name for name, claimable in CLAIMABLE.items() if field in claimable.fields)
            raise ValueError(f"it applies to claims on {of} and has no effect on {metric}; leave it out")
        return value

    @field_validator("window")
    @classmethod
    def _is_a_period(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            if rolling_days(value) is None:
                parse_period(value)
        except UsageError as error:
            raise ValueError(f"{error}; or a number of days before the end of the data, such as 28d") from None
        return value

    @model_validator(mode="after")
    def _compares_two_sizes(self) -> ClaimEntry:
        if self.base_gpus is not None and self.gpus is not None and self.base_gpus >= self.gpus:
            raise ValueError(f"base_gpus {self.base_gpus:g} is not below gpus {self.gpus:g}: it is the smaller size")
        if self.scaling == "weak" and self.basis == "time":
            raise ValueError('weak scaling has no common target: basis = "time" is of strong scaling')
        if self.tokens is not None and self.scaling is not None and self.basis != "time":
            raise ValueError('tokens are the target of a time: add basis = "time"')
        return self

    @model_validator(mode="after")
    def _score_is_delivered(self) -> ClaimEntry:
        if self.score == "mlperf" and self.kind == "capability":
            raise ValueError('score = "mlperf" is the result of the runs that there are: kind = "delivered"')
        return self

    @model_validator(mode="after")
    def _has_credits_of_its_direction(self) -> ClaimEntry:
        wrong = "above" if self.direction == "at_least" else "below"
        right = "below" if wrong == "above" else "above"
        if any(getattr(each, wrong) is not None for each in self.credits):
            raise ValueError(f"credits: a claim of {self.direction} earns credits {right} a number, not {wrong} it")
        if len({each.beyond for each in self.credits}) < len(self.credits):
            raise ValueError(f"credits: two steps have the same number in {right}")
        for each in self.credits:
            if each.beyond > self.target if right == "below" else each.beyond < self.target:
                raise ValueError(
                    f"credits: the step {right} {each.beyond:g} is of numbers that meet the target {self.target:g}, "
                    "too, and those earn no credit: change the step or the target"
                )
        return self

    def terms(self) -> Terms:
        """What a contract adds to the claim."""
        steps = tuple(CreditStep(each.beyond, each.percent) for each in self.credits)
        return Terms(self.rule or "verdict", tuple(sorted(steps, key=lambda step: step.percent)))

    def claim(self) -> Claim:
        """The claim as `metrics.claims` takes it."""
        return Claim(
            id=self.id,
            metric=self.metric,
            quoted=self.quoted,
            read_as=self.read_as,
            kind=self.kind,
            target=self.target,
            direction=self.direction,
            unit=BY_NAME[self.metric].unit,
            gpus=self.gpus,
            min_run_s=(self.min_run_hours or 0.0) * 3600,
            flop_convention=self.flop_convention,
            dtype=self.dtype,
            failure_class=self.failure_class or "infrastructure",
            population=self.population or "pooled",
            base_gpus=self.base_gpus,
            scaling=self.scaling,
            basis=self.basis or "tokens",
            runs=self.runs,
            tokens=self.tokens,
            score=self.score or "mean",
            scope=Scope(**self.scope.model_dump()),
            window=self.window,
            exclusions=tuple(Exclusion(**each.model_dump()) for each in self.exclusions),
        )


def rolling_days(window: str) -> int | None:
    """Days of a window that ends with the data; None where it is a period of the calendar.

    Raises:
        UsageError: it is longer than 100 years.

    >>> rolling_days("28d"), rolling_days("2026-10")
    (28, None)
    """
    match = _ROLLING.fullmatch(window.strip())
    if match is None:
        return None
    days = int(match[1])
    if days > LONGEST_WINDOW_D:
        raise UsageError(f"{window!r} is longer than {LONGEST_WINDOW_D:,} days")
    return days
