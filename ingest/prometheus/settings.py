"""The sections [prometheus], [telemetry] and [retention] of the configuration."""

from __future__ import annotations

from typing import Annotated, Any, Protocol, Self

from pydantic import AfterValidator, Field, FiniteFloat, model_validator

from ingest.settings import SettingsSection

THRESHOLDS = {
    "gpu_samples.gpu_util": 0.1,
    "gpu_samples.gr_engine_active": 0.1,
    "gpu_samples.tensor_active": 0.02,
    "gpu_samples.temperature_c": 85.0,
    "node_samples.cpu_busy": 0.9,
    "node_samples.disk_busy": 0.9,
    "node_samples.io_stalled": 0.1,
    "node_samples.memory_stalled": 0.1,
    "node_samples.fs_readonly": 0.5,
    "node_samples.fs_device_error": 0.5,
}
"""Thresholds of hourly roll-ups, which count the seconds at or above: a busy GPU, one about to throttle, an overloaded
node or filesystem.

At 85 degrees H100 and A100 boards begin to slow down. GPU memory in use has no threshold, since samples do not hold its
size. The thresholds of an active GPU are others: `rules.active_...`."""


def _thresholds(own: dict[str, float]) -> dict[str, float]:
    """The built-in thresholds, and these on top of them; each names a table of samples and one of its metrics."""
    from ingest.prometheus.tables import GPUS  # noqa: PLC0415 - only where thresholds are configured

    for name in own:
        table, _, metric = name.partition(".")
        if table == "gpu_samples" and metric not in GPUS.values:
            message = f"gpu_samples has no {metric or 'metric without a name'}; it has {', '.join(GPUS.values)}"
            raise ValueError(message)
        if table not in {"gpu_samples", "node_samples"} or not metric.isidentifier():
            message = f'{name}: write "gpu_samples.METRIC" or "node_samples.METRIC" = VALUE'
            raise ValueError(message)
    return {**THRESHOLDS, **own}


HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")]
HeaderValue = Annotated[str, Field(pattern=r"^[!-~]([ -~]*[!-~])?$")]


def _metric(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of a mapping, with the keys of `ingest/prometheus/mapping`."""
    from ingest.prometheus.mapping.mapping import MappingError, parse_metric  # noqa: PLC0415 - only if one is configured

    try:
        parse_metric(entry, origin="this entry")
    except MappingError as error:
        raise ValueError(str(error)) from None
    return entry


def _metrics(entries: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """Entries that agree with each other, and with those that are built in."""
    if entries:
        from ingest.prometheus.mapping.mapping import MappingError, builtin  # noqa: PLC0415 - as above

        try:
            builtin().and_more(entries, origin="[[prometheus.metric]]")
        except MappingError as error:
            raise ValueError(str(error)) from None
    return entries


class Prometheus(SettingsSection):
    """How telemetry is read."""

    url: str | None = Field(default=None, description="base address of the server: http://prometheus:9090")
    cluster: str | None = Field(default=None, description="cluster that its series belong to")
    selector: str = Field(default="", description='label matchers added to every query: cluster="a",env="prod"')
    interval_s: int = Field(default=60, ge=10, le=3600, description="samples are averages over so many seconds")
    lookback_hours: float = Field(default=24.0, gt=0, le=87_600, description="first ingest: how far back")
    chunk_hours: float = Field(default=2.0, gt=0, le=87_600, description="requested in intervals of this length")
    chunk_samples: int = Field(
        default=4_000_000,
        gt=0,
        description="shorter intervals where a source has more averages than that in one, but none below 15 minutes",
    )
    timeout_s: float = Field(default=60.0, gt=0, le=86_400, description="longest wait for one answer")
    retries: int = Field(
        default=3, ge=0, le=100, description="how often an interval is requested again, waiting longer each time"
    )
    concurrency: int = Field(default=2, ge=1, le=8, description="number of queries in JSON at the same time")
    remote_read: bool = Field(
        default=True, description="read raw samples by remote read or VictoriaMetrics' export where the server has it"
    )
    daily_samples: int = Field(
        default=2_000_000_000, gt=0, description="doctor warns where a source would read more samples a day than that"
    )
    token_env: str | None = Field(default=None, description="environment variable that holds a bearer token")
    username: str = Field(default="", description="in place of a token: user, for basic authentication")
    password_env: str = Field(default="", description="environment variable that holds the user's password")
    headers: dict[HeaderName, HeaderValue] = Field(
        default={}, description='more headers, such as a tenant\'s: { "X-Scope-OrgID" = "team-a" }'
    )
    header_env: dict[HeaderName, str] = Field(
        default={}, description="more headers that are secret: environment variables that hold them"
    )
    ca_file: str = Field(default="", description="certificates (PEM) of the authorities to trust")
    cert_file: str = Field(default="", description="our own certificate (PEM), where the server requires one")
    key_file: str = Field(default="", description="its key (PEM), where cert_file does not hold it")
    verify_tls: bool = Field(default=True, description="check the server's certificate")
    metric: Annotated[tuple[Annotated[dict[str, Any], AfterValidator(_metric)], ...], AfterValidator(_metrics)] = Field(
        default=(), description="metrics that are read besides those that are built in"
    )

    @model_validator(mode="after")
    def _single_login(self) -> Self:
        """One way to log in, and all that it needs."""
        names = [name.lower() for name in (*self.headers, *self.header_env)]
        logins = [bool(self.token_env), bool(self.username), "authorization" in names]
        for wrong, message in (
            (sum(logins) > 1, "there are several logins: leave one of token_env, username, and a header Authorization"),
            (bool(self.password_env) and not self.username, "password_env is set, but username is not"),
            (bool(self.key_file) and not self.cert_file, "key_file is set, but cert_file is not"),
            (len(set(names)) < len(names), "a header is set twice, in headers and header_env"),
        ):
            if wrong:
                raise ValueError(message)
        return self


class Telemetry(SettingsSection):
    """Telemetry stored besides samples."""

    thresholds: Annotated[dict[str, FiniteFloat], AfterValidator(_thresholds)] = Field(
        default=dict(THRESHOLDS),
        description='roll-ups count seconds at or above: "TABLE.METRIC" = value; on top of those that are built in',
    )


class Retention(SettingsSection):
    """How long telemetry is kept, in whole UTC days; 0 keeps it for ever."""

    samples_days: float = Field(default=0.0, ge=0, description="samples of GPUs and nodes; their hours stay")
    hours_days: float = Field(default=0.0, ge=0, description="hourly roll-ups; no data of older time remains")

    @model_validator(mode="after")
    def _hours_outlive_samples(self) -> Self:
        """Roll-ups remain after samples are removed."""
        if self.hours_days and not 0 < self.samples_days <= self.hours_days:
            message = "hours have to outlive their samples: set samples_days, and hours_days no shorter"
            raise ValueError(message)
        return self


class ActivityRules(Protocol):
    """The thresholds of active GPUs in the section [rules]."""

    @property
    def active_tensor(self) -> float:
        """Tensor activity from which on a GPU is active."""

    @property
    def active_gr_engine(self) -> float:
        """Without it: engine activity from which on a GPU is active."""

    @property
    def active_gpu_util(self) -> float:
        """Without both: utilisation above which a GPU is active."""


class TelemetrySettings(Protocol):
    """Settings that reading and keeping telemetry needs."""

    @property
    def cluster(self) -> str | None:
        """Cluster of inputs that do not name one."""

    @property
    def prometheus(self) -> Prometheus:
        """How telemetry is read."""

    @property
    def telemetry(self) -> Telemetry:
        """Telemetry stored besides samples."""

    @property
    def retention(self) -> Retention:
        """How long telemetry is kept."""

    @property
    def rules(self) -> ActivityRules:
        """Thresholds of active GPUs."""
