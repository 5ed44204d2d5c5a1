"""Configuration: one TOML file, read once, with a default for every setting and all mistakes listed at once."""

from __future__ import annotations

import contextlib
import glob
import ipaddress
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import polars as pl
from polars.exceptions import ComputeError
from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    ValidationError,
)

from app.config import mistakes as config_mistakes
from app.config import place, toml_file
from app.config.access import Access
from app.config.cost import Cost
from app.config.deliver import Deliver
from app.config.fleet import FleetSettings
from app.config.grafana import GrafanaSettings
from app.config.reports import ScheduledReport, cross_mistakes
from app.config.scaling import Scaling
from app.config.zone import Zone
from app.errors import ConfigError
from ingest.context import PLANNED_REASONS
from ingest.counted import counted
from ingest.errors import InputError
from ingest.kubernetes.settings import Kubernetes
from ingest.prometheus.settings import Prometheus, Retention, Telemetry
from ingest.runlog.settings import RunLogs
from ingest.settings import SettingsSection
from ingest.slurm.settings import Slurm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queries import opening

RENAMED = {"slurm.road": "transport"}
"""New names of settings that development versions had under another name."""
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
"""Reasons of drains that indicate a fault: Slurm's own, those of SUNK, Slinky and soperator, and of health checks.

Where they are documented: `ingest/node_reasons.toml`. What a site's own tools write, it adds in its
configuration."""


OTHER_WORK = {
    "verification": r"(?i)^(hpc-verification|dcgm-?diag|nccl-tests?|burn-?in)",
    "evaluation": r"(?i)^eval(uation|uate)?\b",
    "interactive": r"^(interactive|bash|sh|zsh)$|(?i:^(jupyter|notebook|code-server))",
    "inference": r"(?i)^(inference|serve|serving|vllm)\b",
}
"""Names of jobs and partitions that do not train. A cluster with other names has them in its configuration."""


def _python_regex(text: str) -> str:
    """A pattern for `re`: the reasons of nodes are matched by it while they are read."""
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        message = f"not a regular expression: {error}"
        raise ValueError(message) from error
    return text


def _polars_regex(text: str) -> str:
    """A pattern for polars, which matches the others: its engine has neither look-around nor back-references."""
    for pattern in (text, f"(?:{text})"):  # in brackets too: that is how several become one
        try:
            pl.Series([""]).str.contains(pattern)
        except ComputeError as error:
            message = f"not a regular expression (in Rust's syntax): {_complaint(str(error))}"
            raise ValueError(message) from error
    return text


def _naming(text: str) -> str:
    """A pattern of job names whose named groups, if any, mark the one that names the run."""
    names = [field for field in pl.Series([""]).str.extract_groups(text).struct.fields if not field.isdigit()]
    if names and "run" not in names:
        message = f"none of its groups ({', '.join(names)}) is called run; write (?P<run>...) around the run's name"
        raise ValueError(message)
    return text


def _complaint(message: str) -> str:
    r"""Polars' message about a wrong pattern, without the pattern.

    >>> _complaint("regex error: regex parse error:\n    (\n    ^\nerror: unclosed group\n\nThis error occurred ...")
    'unclosed group'
    """
    return message.partition("\n\nThis error occurred")[0].rpartition("error: ")[2].strip()


def joined_patterns(patterns: Sequence[str]) -> str:
    r"""A pattern that matches what one of these does; none of them matches nothing. Flags of one stay its own.

    >>> joined_patterns(["(?i)gpu", "^k8s:"]), joined_patterns([])
    ('(?:(?i)gpu)|(?:^k8s:)', '[^\\s\\S]')
    """
    return "|".join(f"(?:{pattern})" for pattern in patterns) or r"[^\s\S]"


def _together(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns that are used as one: they may be too long only together."""
    _polars_regex(joined_patterns(patterns))
    return patterns


_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def _host(name: str) -> str:
    """The name of a machine as it is in a Host header, in small letters: no scheme, no port, no pattern."""
    small = name.lower()
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(small))
    if len(small) > 253 or not _HOST_NAME.fullmatch(small):
        message = "not the name of a host; write it like trackside.example.com, without https:// and without a port"
        raise ValueError(message)
    return small


PythonRegex = Annotated[str, AfterValidator(_python_regex)]
Regex = Annotated[str, AfterValidator(_polars_regex)]
Host = Annotated[str, AfterValidator(_host)]


_SECRETIVE = ("prometheus.", "slurm.rest_", "access.client_", "access.issuer", "access.url", "deliver.")
"""Settings whose wrong values are not shown."""

_CREDENTIALS = re.compile(r"://[^/\s]*@")
"""User and password in an address, wherever it was put by mistake."""


class Serve(SettingsSection):
    """How explorer and exporter are served."""

    host: str = Field(default="127.0.0.1", description="address to listen on; the default is this machine only")
    port: int = Field(default=8050, ge=0, le=65535, description="port; 0 takes a free one")
    names: tuple[Host, ...] = Field(
        default=(), description="host names that a proxy on this machine passes on, besides localhost"
    )
    every_minutes: float = Field(
        default=15.0, ge=0, le=525_600, description="minutes between two cycles of `serve`; 0: only serve"
    )
    runlogs: tuple[str, ...] = Field(default=(), description="run logs that `serve` loads: file patterns")
    lake: Path | None = Field(default=None, description="lake into which `serve` copies the warehouse after each cycle")
    lake_files: str | None = Field(
        default=None, description="where the files of a new lake are to be stored: a folder, or s3://BUCKET/..."
    )


class Rules(SettingsSection):
    """Rules that numbers depend on; printed with `--explain` and kept with every computation."""

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


class Sql(SettingsSection):
    """Limits of `trackside sql`."""

    rows: int = Field(default=10_000, gt=0, le=1_000_000_000, description="most rows")
    seconds: float = Field(default=60.0, gt=0, le=86_400, description="longest time")
    memory_mb: int = Field(default=2_000, ge=100, le=16_777_216, description="most memory")
    result_mb: int = Field(default=64, gt=0, le=65_536, description="largest result")


class EngineSettings(SettingsSection):
    """How much of the machine DuckDB takes for the warehouse; `trackside sql` has limits of its own."""

    memory_mb: int | None = Field(
        default=None,
        ge=100,
        le=16_777_216,
        description="most memory of DuckDB in each process, in MB; the rest goes to files; none: 80 % of the memory",
    )
    threads: int | None = Field(default=None, ge=1, le=4096, description="threads of DuckDB; none: one for each core")
    temp_directory: Path | None = Field(
        default=None,
        description="where DuckDB puts what does not fit into memory; none: beside the warehouse's database",
    )

    @property
    def chosen(self) -> opening.Engine:
        """As the warehouse takes it."""
        from queries import opening  # noqa: PLC0415 - it imports DuckDB

        return opening.Engine(self.memory_mb, self.threads, self.temp_directory)


class Config(SettingsSection):
    """All settings."""

    warehouse: Path = Field(default=place.DEFAULT_WAREHOUSE, description="warehouse directory, or a lake")
    warehouse_group: str | None = Field(default=None, description="Unix group that may read it; else its owner alone")
    cluster: str | None = Field(default=None, description="cluster of inputs that do not name one")
    timezone: Zone | None = Field(default=None, description="zone of times that carry none")
    claims: Path | None = Field(default=None, description="claims file for `trackside verify`")
    reports: tuple[ScheduledReport, ...] = Field(
        default=(), description="reports on a schedule: a table [[reports]] for each; its settings are below"
    )
    slurm: Slurm = Slurm()
    prometheus: Prometheus = Prometheus()
    kubernetes: Kubernetes = Kubernetes()
    telemetry: Telemetry = Telemetry()
    retention: Retention = Retention()
    runlog: RunLogs = RunLogs()
    serve: Serve = Serve()
    access: Access = Access()
    grafana: GrafanaSettings = GrafanaSettings()
    rules: Rules = Rules()
    cost: Cost = Cost()
    scaling: Scaling = Scaling()
    sql: Sql = Sql()
    engine: EngineSettings = EngineSettings()
    deliver: Deliver = Deliver()
    fleet: FleetSettings = FleetSettings()
    _file: Path | None = PrivateAttr(default=None)

    @property
    def file(self) -> Path | None:
        """The file that it was read from; None: it is from no file."""
        return self._file


def load(path: Path | None = None) -> Config:
    """Read the configuration: the given file, else $TRACKSIDE_CONFIG, else ./trackside.toml, else the defaults.

    $TRACKSIDE_WAREHOUSE beats the file's `warehouse`.

    Raises:
        ConfigError: the named file does not exist, is not TOML, or has mistakes; all are listed.
    """
    existing = place.config_file(path)
    config = Config() if existing is None else of_file(existing)
    warehouse = place.warehouse_of_environment()
    return config.model_copy(update={"warehouse": warehouse}) if warehouse else config


def of_file(path: Path) -> Config:
    """The configuration of this file alone, whatever the environment names.

    Raises:
        ConfigError: as `load`.
    """
    config = _resolve_paths(parse(_read(path), origin=str(path)), path.parent)
    config._file = path.absolute()  # noqa: SLF001 - its own
    return config


def parse(values: dict[str, Any], *, origin: str) -> Config:
    """Check values that came from TOML.

    Raises:
        ConfigError: listing every mistake.
    """
    mistakes = cross_mistakes(values)
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        mistakes = [*map(_describe, error.errors()), *mistakes]
    if mistakes:
        listed = "\n".join(f"  {each}" for each in mistakes)
        raise ConfigError(f"{origin} has {counted(len(mistakes), 'mistake')}:\n{listed}")
    return config


def _resolve_paths(config: Config, folder: Path) -> Config:
    """Relative paths of a configuration file are relative to its folder, not to the working directory."""
    claims = None if config.claims is None else folder / config.claims
    runlogs = tuple(str(Path(glob.escape(str(folder)), pattern)) for pattern in config.serve.runlogs)
    lake = None if config.serve.lake is None else folder / config.serve.lake
    lake_files = place.beside(folder, config.serve.lake_files)
    serve = config.serve.model_copy(update={"runlogs": runlogs, "lake": lake, "lake_files": lake_files})
    kubeconfig = config.kubernetes.kubeconfig
    kubernetes = config.kubernetes.model_copy(
        update={"kubeconfig": None if kubeconfig is None else folder / kubeconfig.expanduser()}
    )
    parquet = config.grafana.parquet
    grafana = config.grafana.model_copy(update={"parquet": None if parquet is None else folder / parquet.expanduser()})
    temp = config.engine.temp_directory
    engine = config.engine.model_copy(update={"temp_directory": None if temp is None else folder / temp.expanduser()})
    update = {
        "grafana": grafana,
        "engine": engine,
        "warehouse": folder / config.warehouse,
        "claims": claims,
        "serve": serve,
        "access": config.access.beside(folder),
        "kubernetes": kubernetes,
        "deliver": config.deliver.beside(folder),
        "fleet": config.fleet.beside(folder),
        "reports": tuple(report.beside(folder) for report in config.reports),
    }
    return config.model_copy(update=update)


def _read(path: Path) -> dict[str, Any]:
    try:
        return toml_file.parse(toml_file.read(path))
    except FileNotFoundError:
        raise ConfigError(f"there is no configuration file {path}") from None
    except InputError as error:
        raise ConfigError(f"the configuration cannot be read: {error}") from None
    except toml_file.NotTomlError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None


def _describe(mistake: Any) -> str:  # noqa: ANN401 - pydantic's own structure
    setting = ".".join(str(part) for part in mistake["loc"])
    table = config_mistakes.table(mistake["loc"], Config)
    if mistake["type"] != "extra_forbidden":
        return (
            f"{setting}{_shown_value(setting, mistake['input'])}: {config_mistakes.problem(mistake, Config)} ({table})"
        )
    return f"{setting}: no such setting; {_hint(setting, mistake['loc'])} ({table})"


def _hint(setting: str, loc: Sequence[str | int]) -> str:
    return f"it is called {RENAMED[setting]}" if setting in RENAMED else config_mistakes.suggestion(loc, Config)


def _shown_value(setting: str, value: object) -> str:
    """The value for a message: nothing for a whole section (any part may be a secret) or where it may hold one."""
    inside = value if isinstance(value, list) else [value]
    if any(isinstance(part, dict | list) for part in inside):
        return ""
    if f"{setting}.".startswith(_SECRETIVE) or _CREDENTIALS.search(repr(value)):
        return " = (not shown: it may hold a password)"
    return f" = {value!r}"
