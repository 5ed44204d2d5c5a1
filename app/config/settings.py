"""Configuration: one TOML file, read once, with a default for every setting and all mistakes listed at once."""

from __future__ import annotations

import contextlib
import difflib
import glob
import ipaddress
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self
from zoneinfo import ZoneInfo

import polars as pl
from polars.exceptions import ComputeError
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from app.config import mistakes as config_mistakes
from app.config import toml_file
from app.errors import ConfigError
from ingest.errors import InputError
from ingest.prometheus.mapping.mapping import MappingError, builtin, parse_metric
from ingest.prometheus.store.merge import GPUS
from ingest.slurm.nodes.inventory import PLANNED_REASONS

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_PATH = Path("trackside.toml")
CRITICAL_REASONS = (
    r"^k8s:",
    r"^slurm-operator:",
    r"^\[(node_problem|hardware_problem|HC)\]",
    r"^Soperator (activecheck|auto-healing)",
    r"^NHC:",
    r"^Prolog error",
    r"^Epilog error",
    r"^Kill task failed",
    r"^Not responding",
    r"(?i)\bhealth",
    r"(?i)\b(xid|ecc|nvlink|gpu)\b",
)
"""Reasons of drains that speak of a fault: Slurm's own, those of SUNK, Slinky and soperator, and of health checks.

Where they are documented: `ingest.slurm.nodes.events.driver`. What a site's own tools write, it adds in its
configuration."""


OTHER_WORK = {
    "verification": r"(?i)^(hpc-verification|dcgm-?diag|nccl-tests?|burn-?in)",
    "evaluation": r"(?i)^eval(uation|uate)?\b",
    "interactive": r"^(interactive|bash|sh|zsh)$|(?i:^(jupyter|notebook|code-server))",
    "inference": r"(?i)^(inference|serve|serving|vllm)\b",
}
"""Names of jobs and partitions that do not train. A cluster that calls them otherwise says so in its configuration."""


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
"""From where on hourly roll-ups count seconds: a GPU at work, one about to throttle, a node or a filesystem in trouble.

85 degrees is where H100 and A100 boards begin to slow down; GPU memory in use has none, for how much there is is not
among the samples. That a GPU counts as active is another matter: `rules.active_...`."""


def _thresholds(given: dict[str, float]) -> dict[str, float]:
    """Those that are built in, and these on top of them; each names a table of samples and one of its metrics."""
    for name in given:
        table, _, metric = name.partition(".")
        if table == "gpu_samples" and metric not in GPUS.values:
            message = f"gpu_samples has no {metric or 'metric without a name'}; it has {', '.join(GPUS.values)}"
            raise ValueError(message)
        if table not in {"gpu_samples", "node_samples"} or not metric.isidentifier():
            message = f'{name}: write "gpu_samples.METRIC" or "node_samples.METRIC" = VALUE'
            raise ValueError(message)
    return {**THRESHOLDS, **given}


def _python_regex(text: str) -> str:
    """A pattern for `re`: the reasons of nodes are matched by it while they are read."""
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        message = f"not a regular expression: {error}"
        raise ValueError(message) from error
    return text


def _polars_regex(text: str) -> str:
    """A pattern for polars, which matches the others: its engine knows neither look-around nor back-references."""
    for pattern in (text, f"(?:{text})"):  # in brackets too: that is how several become one
        try:
            pl.Series([""]).str.contains(pattern)
        except ComputeError as error:
            message = f"not a regular expression (in Rust's syntax): {_complaint(str(error))}"
            raise ValueError(message) from error
    return text


def _naming(text: str) -> str:
    """A pattern of job names whose groups, where they have names, tell which of them names the run."""
    names = [field for field in pl.Series([""]).str.extract_groups(text).struct.fields if not field.isdigit()]
    if names and "run" not in names:
        message = f"none of its groups ({', '.join(names)}) is called run; write (?P<run>...) around what names the run"
        raise ValueError(message)
    return text


def _complaint(said: str) -> str:
    r"""What polars says is wrong with a pattern, without the pattern.

    >>> _complaint("regex error: regex parse error:\n    (\n    ^\nerror: unclosed group\n\nThis error occurred ...")
    'unclosed group'
    """
    return said.partition("\n\nThis error occurred")[0].rpartition("error: ")[2].strip()


def one_pattern(patterns: Sequence[str]) -> str:
    r"""A pattern that matches what one of these does; none of them matches nothing. Flags of one stay its own.

    >>> one_pattern(["(?i)gpu", "^k8s:"]), one_pattern([])
    ('(?:(?i)gpu)|(?:^k8s:)', '[^\\s\\S]')
    """
    return "|".join(f"(?:{pattern})" for pattern in patterns) or r"[^\s\S]"


def _together(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns that are used as one: they may be too long only together."""
    _polars_regex(one_pattern(patterns))
    return patterns


_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def _host(name: str) -> str:
    """The name of a machine as it stands in a Host header, in small letters: no scheme, no port, no pattern."""
    small = name.lower()
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(small))
    if len(small) > 253 or not _HOST_NAME.fullmatch(small):
        message = "not the name of a host; write it like trackside.example.com, without https:// and without a port"
        raise ValueError(message)
    return small


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        message = f"no time zone is called {name!r}; use a name such as UTC or Europe/Berlin"
        raise ValueError(message) from error
    return name


HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")]
HeaderValue = Annotated[str, Field(pattern=r"^[!-~]([ -~]*[!-~])?$")]


def _metric(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of a mapping, in the words of `ingest/prometheus/mapping`."""
    try:
        parse_metric(entry, origin="this entry")
    except MappingError as error:
        raise ValueError(str(error)) from None
    return entry


def _metrics(entries: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """Entries that agree with each other, and with those that are built in."""
    if entries:
        try:
            builtin().and_more(entries, origin="[[prometheus.metric]]")
        except MappingError as error:
            raise ValueError(str(error)) from None
    return entries


PythonRegex = Annotated[str, AfterValidator(_python_regex)]
Regex = Annotated[str, AfterValidator(_polars_regex)]
Host = Annotated[str, AfterValidator(_host)]
Zone = Annotated[str, AfterValidator(_zone)]


_SECRETIVE = ("prometheus.", "slurm.rest_")
"""Settings whose wrong values are not shown."""

_CREDENTIALS = re.compile(r"://[^/\s]*@")
"""User and password in an address, wherever it was put by mistake."""


_LONGEST: Final = {"days": 36_525.0, "hours": 876_600.0, "minutes": 52_596_000.0, "s": 3.2e9, "seconds": 3.2e9}
"""Of lengths of time by the end of their names: a century. Longer ones cannot be added to a date."""

_LARGEST = 1e12
"""Of other numbers."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _is_usable(cls, value: object, info: ValidationInfo) -> object:
        most = _LONGEST.get(str(info.field_name).rpartition("_")[2], _LARGEST)
        if isinstance(value, int | float) and value > most:
            raise ValueError(f"too large; allowed: at most {most:g}")
        inside = value if isinstance(value, tuple) else (value,)
        if any("\0" in str(each) for each in inside if isinstance(each, str | Path)):
            raise ValueError("it holds a NUL, which no name, path or address can")
        return value


class Slurm(_Section):
    """How Slurm is read."""

    lookback_days: float = Field(default=30.0, gt=0, description="first live ingest: how far back")
    window_days: float = Field(default=7.0, gt=0, description="accounting is asked for in windows of this length")
    overlap_hours: float = Field(default=24.0, ge=0, description="later ingests go back this far behind the last one")
    timeout_s: float = Field(default=300.0, gt=0, le=86_400, description="longest wait for one Slurm command")
    clusters: tuple[str, ...] = Field(default=(), description="clusters to ask for (-M); none: the one of this machine")
    retries: int = Field(
        default=3, ge=0, le=100, description="how often a failed question is put again, waiting longer each time"
    )
    retry_s: float = Field(default=2.0, ge=0, le=3_600, description="first wait before asking again; doubled each time")
    pause_s: float = Field(default=0.2, ge=0, le=3_600, description="pause between two windows of accounting")
    answer_mb: int = Field(default=256, gt=0, description="larger answers make the next windows half as long")
    recheck_jobs: int = Field(
        default=1000, ge=0, description="open jobs that windows miss: so many are asked for by id"
    )
    road: Literal["commands", "rest"] = Field(
        default="commands", description="how to ask: Slurm's commands on this machine, or slurmrestd"
    )
    rest_url: str | None = Field(default=None, description="slurmrestd: unix:/path/of/the.socket or http://HOST:PORT")
    rest_version: Annotated[str, Field(pattern=r"^0\.0\.\d{1,3}$")] | None = Field(
        default=None, description="version of slurmrestd's API, such as 0.0.41; found out when not given"
    )
    rest_user: str | None = Field(default=None, description="whose token it is (slurmrestd of 22.05 wants the name)")
    rest_token_env: str = Field(default="SLURM_JWT", description="environment variable that holds the token (JWT)")

    @model_validator(mode="after")
    def _road_has_an_address(self) -> Self:
        """One slurmrestd, of one cluster."""
        if self.road == "rest" and not self.rest_url:
            message = "road is rest, but rest_url does not say where slurmrestd is"
            raise ValueError(message)
        if self.road == "rest" and len(self.clusters) > 1:
            message = "road is rest, and one slurmrestd tells of one cluster; name one, or use the commands"
            raise ValueError(message)
        return self


class Prometheus(_Section):
    """How telemetry is read."""

    url: str | None = Field(default=None, description="base address of the server: http://prometheus:9090")
    cluster: str | None = Field(default=None, description="cluster that its series belong to")
    selector: str = Field(default="", description='label matchers added to every query: cluster="a",env="prod"')
    interval_s: int = Field(default=60, ge=10, le=3600, description="samples are averages over so many seconds")
    lookback_hours: float = Field(default=24.0, gt=0, le=87_600, description="first ingest: how far back")
    chunk_hours: float = Field(default=2.0, gt=0, le=87_600, description="asked for in pieces of this length")
    timeout_s: float = Field(default=60.0, gt=0, le=86_400, description="longest wait for one answer")
    retries: int = Field(
        default=3, ge=0, le=100, description="how often a piece is asked for again, waiting longer each time"
    )
    concurrency: int = Field(default=2, ge=1, le=8, description="so many questions in JSON at the same time")
    remote_read: bool = Field(
        default=True, description="read raw samples by remote read or VictoriaMetrics' export where the server has it"
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
    cert_file: str = Field(default="", description="our own certificate (PEM), where the server wants one")
    key_file: str = Field(default="", description="its key (PEM), where cert_file does not hold it")
    verify_tls: bool = Field(default=True, description="check the server's certificate")
    metric: Annotated[tuple[Annotated[dict[str, Any], AfterValidator(_metric)], ...], AfterValidator(_metrics)] = Field(
        default=(), description="metrics that are read besides those that are built in"
    )

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        """One way to log in, and all that it needs."""
        names = [name.lower() for name in (*self.headers, *self.header_env)]
        ways = [bool(self.token_env), bool(self.username), "authorization" in names]
        for wrong, message in (
            (sum(ways) > 1, "there are several logins: leave one of token_env, username, and a header Authorization"),
            (bool(self.password_env) and not self.username, "password_env is set, but username is not"),
            (bool(self.key_file) and not self.cert_file, "key_file is set, but cert_file is not"),
            (len(set(names)) < len(names), "a header is set twice, in headers and header_env"),
        ):
            if wrong:
                raise ValueError(message)
        return self


class Telemetry(_Section):
    """What is kept of telemetry beside its samples."""

    thresholds: Annotated[dict[str, FiniteFloat], AfterValidator(_thresholds)] = Field(
        default=dict(THRESHOLDS),
        description='roll-ups count seconds at or above: "TABLE.METRIC" = value; on top of those that are built in',
    )


class Retention(_Section):
    """How long telemetry is kept, in whole UTC days; 0 keeps it for ever."""

    samples_days: float = Field(default=0.0, ge=0, description="samples of GPUs and nodes; their hours stay")
    hours_days: float = Field(default=0.0, ge=0, description="hourly roll-ups; nothing is left of the time then")

    @model_validator(mode="after")
    def _hours_outlive_samples(self) -> Self:
        """A roll-up is what is left of samples."""
        if self.hours_days and not 0 < self.samples_days <= self.hours_days:
            message = "hours outlive the samples that they are made of: set samples_days, and hours_days no shorter"
            raise ValueError(message)
        return self


class Serve(_Section):
    """How explorer and exporter are served."""

    host: str = Field(default="127.0.0.1", description="address to listen on; the default is this machine only")
    port: int = Field(default=8050, ge=0, le=65535, description="port; 0 takes a free one")
    names: tuple[Host, ...] = Field(
        default=(), description="names by which a proxy on this machine asks, answered besides localhost"
    )
    every_minutes: float = Field(
        default=15.0, ge=0, le=525_600, description="`serve` ingests and computes that often; 0: never"
    )
    runlogs: tuple[str, ...] = Field(default=(), description="run logs that `serve` reads: file patterns")


class Rules(_Section):
    """What numbers depend on; printed with `--explain` and kept with every computation."""

    planned_reasons: tuple[PythonRegex, ...] = Field(
        default=PLANNED_REASONS, description="node reasons (regular expressions) that mean planned work"
    )
    critical_reasons: Annotated[tuple[Regex, ...], AfterValidator(_together)] = Field(
        default=CRITICAL_REASONS, description="drain reasons that can explain a job's end"
    )
    other_work: dict[str, Regex] = Field(
        default=dict(OTHER_WORK),
        description="jobs that do not train, by name or partition: kind = regular expression; in place of the defaults",
    )
    run_gap_hours: float = Field(default=24.0, gt=0, description="longest gap between requeues of a run")
    run_env: Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")] = Field(
        default="TRACKSIDE_RUN_ID",
        description="environment variable that names the run of a job, best called ...RUN_ID or ...RUN_NAME: values of "
        "other variables on a command line are not kept (they may be secrets); empty: none",
    )
    run_comment_key: Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_.-]*)?$")] = Field(
        default="run", description="key that names the run in a comment (`run=NAME`, or in JSON); empty: none"
    )
    run_wckey: bool = Field(default=False, description="the wckey of a job names its run")
    run_names: tuple[Annotated[Regex, AfterValidator(_naming)], ...] = Field(
        default=(),
        description="job names (regular expressions) of which jobs are one run, named by the group `run`, else by the "
        "first group, else by what matched",
    )
    join_by_name: bool = Field(
        default=False, description="guess: jobs of one user, account, name and directory in turn are one run"
    )
    join_gpu_factor: float = Field(default=2.0, ge=1, description="... if their GPU counts differ by no more than this")
    coverage_gap_hours: float = Field(default=1.0, ge=0, description="gaps between loads up to this are closed")
    active_tensor: float = Field(default=0.02, gt=0, le=1, description="a GPU is active from this tensor activity on")
    active_gr_engine: float = Field(default=0.1, gt=0, le=1, description="... without it: from this engine activity on")
    active_gpu_util: float = Field(default=0.1, gt=0, le=1, description="... without both: above this utilisation")
    hang_steps: float = Field(default=10.0, gt=1, description="no step for so many median steps is a hang ...")
    hang_min_s: float = Field(default=300.0, gt=0, description="... but no shorter than this")
    clock_skew_s: float = Field(default=60.0, ge=0, description="a log further outside its attempt is not used")
    flop_convention: Literal[
        "palm_full", "causal_half", "megatron_legacy", "megatron_causal", "torchtitan", "6N_only"
    ] = Field(default="palm_full", description="how the FLOP of a token are counted for the headline MFU")


class Sql(_Section):
    """Limits of `trackside sql`."""

    rows: int = Field(default=10_000, gt=0, le=1_000_000_000, description="most rows")
    seconds: float = Field(default=60.0, gt=0, le=86_400, description="longest time")
    memory_mb: int = Field(default=2_000, ge=100, le=16_777_216, description="most memory")
    result_mb: int = Field(default=64, gt=0, le=65_536, description="largest result")


class Config(_Section):
    """All settings."""

    warehouse: Path = Field(default=Path("trackside-data"), description="warehouse directory")
    warehouse_group: str | None = Field(default=None, description="Unix group that may read it; else its owner alone")
    cluster: str | None = Field(default=None, description="cluster of inputs that do not name one")
    timezone: Zone | None = Field(default=None, description="zone of times that carry none")
    claims: Path | None = Field(default=None, description="claims file for `trackside verify`")
    slurm: Slurm = Slurm()
    prometheus: Prometheus = Prometheus()
    telemetry: Telemetry = Telemetry()
    retention: Retention = Retention()
    serve: Serve = Serve()
    rules: Rules = Rules()
    sql: Sql = Sql()


def load(path: Path | None = None) -> Config:
    """Read the configuration: the given file, else $TRACKSIDE_CONFIG, else ./trackside.toml, else the defaults.

    $TRACKSIDE_WAREHOUSE beats the file's `warehouse`.

    Raises:
        ConfigError: the file named is not there, is not TOML, or has mistakes; all are listed.
    """
    named = path or (Path(os.environ["TRACKSIDE_CONFIG"]) if os.environ.get("TRACKSIDE_CONFIG") else None)
    if named is None and not DEFAULT_PATH.exists():
        config = Config()
    else:
        found = named or DEFAULT_PATH
        config = _beside(parse(_read(found), origin=str(found)), found.parent)
    place = os.environ.get("TRACKSIDE_WAREHOUSE")
    return config.model_copy(update={"warehouse": Path(place)}) if place else config


def parse(values: dict[str, Any], *, origin: str) -> Config:
    """Check values that came from TOML.

    Raises:
        ConfigError: listing every mistake.
    """
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        mistakes = "\n".join(f"  {_said(mistake)}" for mistake in error.errors())
        raise ConfigError(f"{origin} has {error.error_count()} mistake(s):\n{mistakes}") from None


def _beside(config: Config, folder: Path) -> Config:
    """Paths in a file are meant from where the file is, not from where somebody stands."""
    claims = None if config.claims is None else folder / config.claims
    runlogs = tuple(str(Path(glob.escape(str(folder)), pattern)) for pattern in config.serve.runlogs)
    serve = config.serve.model_copy(update={"runlogs": runlogs})
    return config.model_copy(update={"warehouse": folder / config.warehouse, "claims": claims, "serve": serve})


def _read(path: Path) -> dict[str, Any]:
    try:
        return toml_file.parse(toml_file.read(path))
    except FileNotFoundError:
        raise ConfigError(f"there is no configuration file {path}") from None
    except InputError as error:
        raise ConfigError(f"the configuration cannot be read: {error}") from None
    except toml_file.NotTomlError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None


def _said(mistake: Any) -> str:  # noqa: ANN401 - pydantic's own structure
    where = ".".join(str(part) for part in mistake["loc"])
    there = config_mistakes.place(mistake["loc"], Config)
    if mistake["type"] != "extra_forbidden":
        return f"{where}{_given(where, mistake['input'])}: {config_mistakes.problem(mistake, Config)} ({there})"
    *sections, name = mistake["loc"]
    known = list(_fields(tuple(str(section) for section in sections)))
    close = difflib.get_close_matches(str(name), known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
    return f"{where}: no such setting; {hint} ({there})"


def _given(where: str, value: object) -> str:
    """What stands behind the name of a setting; nothing for a whole section, of which any part may be a secret."""
    inside = value if isinstance(value, list) else [value]
    if any(isinstance(one, dict | list) for one in inside):
        return ""
    if f"{where}.".startswith(_SECRETIVE) or _CREDENTIALS.search(repr(value)):
        return " = (not shown: it may hold a password)"
    return f" = {value!r}"


def _fields(sections: tuple[str, ...]) -> dict[str, Any]:
    model: Any = Config
    for section in sections:
        model = type(model.model_fields[section].default)
    fields: dict[str, Any] = model.model_fields
    return fields
