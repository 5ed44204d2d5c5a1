"""Targets of report deliveries. Secrets are named here, never written: environment variables and files hold them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from app.config.forms import Form
from ingest.http_address import is_open_address
from ingest.settings import SettingsSection

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def _url(url: str) -> str:
    """An address without secrets; encrypted, unless it is this machine."""
    plain = is_open_address(url) and urlsplit(url).scheme == "http"
    if not is_open_address(url) or (plain and urlsplit(url).hostname not in _LOOPBACK):
        message = "write https://HOST/PATH (http only for this machine), without a password; secrets have settings of"
        raise ValueError(f"{message} their own, ending in _env and _file")
    return url


def _variable(name: str) -> str:
    if not re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)?", name):
        message = "not the name of an environment variable (the variable holds the secret, not this file)"
        raise ValueError(message)
    return name


def _mailbox(text: str) -> str:
    if not re.fullmatch(r"[^@\s,;<>\"]+@[^@\s,;<>\"]+", text) or not text.isascii():
        message = "not a mail address; write it like reports@example.com"
        raise ValueError(message)
    return text


Url = Annotated[str, AfterValidator(_url)]
Variable = Annotated[str, AfterValidator(_variable)]
Mailbox = Annotated[str, AfterValidator(_mailbox)]
TargetName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,32}[a-z0-9])?$")]


class Target(SettingsSection):
    """Settings of every target."""

    name: TargetName = Field(description="its name: small letters, digits and hyphens; reports name it in `deliver`")


class FolderTarget(Target):
    """A folder of this machine: a new folder in it for each report."""

    path: Path = Field(description="the folder; it is made if it is not there. `{user}` in it is the user of a digest")


class S3(Target):
    """A bucket of S3, or of a server with its protocol. Needs the extra `trackside[s3]`."""

    bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")] = Field(description="the bucket")
    prefix: Annotated[str, Field(pattern=r"^([A-Za-z0-9!_.*'()-]+/?)*$", max_length=512)] = Field(
        default="", description="put before the name of every object"
    )
    endpoint: Url | None = Field(default=None, description="address of a server with S3's protocol; none: Amazon's")
    region: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,64}$")] = Field(default="us-east-1", description="region")
    access_key_env: Variable = Field(
        default="AWS_ACCESS_KEY_ID", description="environment variable that holds the access key"
    )
    secret_key_env: Variable = Field(
        default="AWS_SECRET_ACCESS_KEY", description="environment variable that holds the secret key"
    )
    secret_key_file: Path | None = Field(default=None, description="file with the secret key, in place of that")


class Smtp(Target):
    """Mail, with the report in words as its text and forms of it attached."""

    host: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]+$")] = Field(description="the mail server")
    port: int = Field(default=0, ge=0, le=65535, description="its port; 0: 587, with `security` tls 465")
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls",
        description="starttls: encrypted after a greeting, or nothing is sent; tls: from the first byte; none: only to "
        "this machine",
    )
    user: str = Field(default="", description="user to log in as; empty: no login")
    password_env: Variable = Field(
        default="", description="environment variable that holds the password; or `password_file`"
    )
    password_file: Path | None = Field(default=None, description="file that holds the password")
    sender: Mailbox = Field(description="address of the sender")
    to: tuple[Mailbox, ...] = Field(
        min_length=1, description="addresses of the recipients. `{user}` in one is the user of a digest"
    )
    attach: tuple[Form, ...] = Field(default=("pdf",), description="forms of the report that are attached")
    ca_file: Path | None = Field(default=None, description="certificates (PEM) of the authorities to trust")

    @model_validator(mode="after")
    def _is_safe(self) -> Smtp:
        if self.security == "none" and self.host not in _LOOPBACK:
            message = 'security = "none" is only for a server on this machine; use starttls or tls'
            raise ValueError(message)
        if self.user and not (self.password_env or self.password_file):
            message = "a user needs password_env or password_file"
            raise ValueError(message)
        return self


class Hook(Target):
    """An address that is itself a secret: whoever has it can write there."""

    url_env: Variable = Field(
        default="", description="environment variable that holds the webhook's address; or `url_file`"
    )
    url_file: Path | None = Field(default=None, description="file that holds the webhook's address")
    ca_file: Path | None = Field(default=None, description="certificates (PEM) of the authorities to trust")

    @model_validator(mode="after")
    def _has_url(self) -> Hook:
        if bool(self.url_env) == (self.url_file is not None):
            message = "needs either url_env or url_file, which hold the webhook's address"
            raise ValueError(message)
        return self


class Slack(Hook):
    """An incoming webhook of Slack: the report in words."""


class Teams(Hook):
    """A webhook of Teams (Workflows: "When a Teams webhook request is received"): the report in words, as a card."""


class Mattermost(Hook):
    """An incoming webhook of Mattermost: the report in words."""


class Webhook(Target):
    """Any webhook: the report as JSON, signed by the rules of Standard Webhooks."""

    url: Url = Field(description="the address")
    secret_env: Variable = Field(
        default="", description="environment variable that holds the signing secret; or `secret_file`"
    )
    secret_file: Path | None = Field(default=None, description="file that holds the signing secret")
    ca_file: Path | None = Field(default=None, description="certificates (PEM) of the authorities to trust")

    @model_validator(mode="after")
    def _has_secret(self) -> Webhook:
        if bool(self.secret_env) == (self.secret_file is not None):
            message = "needs either secret_env or secret_file, which hold the signing secret"
            raise ValueError(message)
        return self


class Deliver(SettingsSection):
    """Targets of reports: a table for each, such as [[deliver.smtp]], and the treatment of failures."""

    retries: int = Field(default=5, ge=0, le=20, description="retries of a failed delivery")
    pause_s: float = Field(
        default=2.0, ge=0, le=3600, description="pause before the first retry; each later one is twice as long"
    )
    longest_pause_s: float = Field(default=300.0, ge=0, le=3600, description="longest pause between two retries")
    timeout_s: float = Field(default=30.0, gt=0, le=3600, description="longest wait for a receiver")
    keep_days: int = Field(
        default=0,
        ge=0,
        le=36500,
        description="days that files of delivered reports are kept beside the warehouse; 0: for ever",
    )
    outbox: Path | None = Field(
        default=None,
        description="folder of reports made and delivered; none: NAME-reports beside the warehouse; a lake needs one",
    )
    folder: tuple[FolderTarget, ...] = Field(default=(), description="folders of this machine; see below")
    s3: tuple[S3, ...] = Field(default=(), description="buckets; see below")
    smtp: tuple[Smtp, ...] = Field(default=(), description="mail; see below")
    slack: tuple[Slack, ...] = Field(default=(), description="channels of Slack; see below")
    teams: tuple[Teams, ...] = Field(default=(), description="channels of Teams; see below")
    mattermost: tuple[Mattermost, ...] = Field(default=(), description="channels of Mattermost; see below")
    webhook: tuple[Webhook, ...] = Field(default=(), description="any other receivers; see below")

    @property
    def targets(self) -> dict[str, Target]:
        """All targets by name."""
        kinds: tuple[tuple[Target, ...], ...] = tuple(getattr(self, name) for name in KINDS)
        return {target.name: target for kind in kinds for target in kind}

    def beside(self, folder: Path) -> Deliver:
        """The same with files relative to a folder."""
        moved = {name: tuple(_beside(target, folder) for target in getattr(self, name)) for name in KINDS}
        outbox = None if self.outbox is None else folder / self.outbox.expanduser()
        return self.model_copy(update={**moved, "outbox": outbox})


USER = "{user}"
"""Stands in the address of a mail, or the path of a folder, for the user that a digest is about."""

KINDS = ("folder", "s3", "smtp", "slack", "teams", "mattermost", "webhook")
"""The kinds of targets, as they are in the configuration."""


def _beside(target: Target, folder: Path) -> Target:
    files = {name: value for name, value in target if isinstance(value, Path)}
    return target.model_copy(update={name: folder / file.expanduser() for name, file in files.items()})
