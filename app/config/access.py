"""Access to the explorer: how people log in, and the role of each."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from ingest.settings import SettingsSection


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        message = "not an address, and no network; write it like 127.0.0.1 or 10.0.0.0/28"
        raise ValueError(message) from None


def _header(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", name):
        message = "not the name of a header: letters, digits and hyphens, such as X-Forwarded-User"
        raise ValueError(message)
    return name


def _site(url: str) -> str:
    """An address without a password; encrypted, unless it is this machine. Empty: none."""
    if not url:
        return ""
    parts = urlsplit(url)
    plain = parts.scheme == "http" and parts.hostname in {"127.0.0.1", "::1", "localhost"}
    if not (parts.scheme == "https" or plain) or not parts.hostname or parts.username or parts.query or parts.fragment:
        message = "write it like https://trackside.example.com (http only for this machine), without a password"
        raise ValueError(message)
    return url.rstrip("/")


def _group_pattern(text: str) -> str:
    try:
        groups = re.compile(text).groups
    except (re.error, OverflowError, RecursionError) as error:
        message = f"not a regular expression: {error}"
        raise ValueError(message) from error
    if text and groups != 1:
        message = "it needs one group in brackets, around the name of the account, as in ^slurm-(.+)$"
        raise ValueError(message)
    return text


def _member(text: str) -> str:
    if text != "*" and not re.fullmatch(r"(user|group):.+", text):
        message = 'write "user:NAME", "group:NAME", or "*" for everyone who can log in'
        raise ValueError(message)
    return text


Network = Annotated[str, AfterValidator(_network)]
HeaderName = Annotated[str, AfterValidator(_header)]
Site = Annotated[str, AfterValidator(_site)]
Member = Annotated[str, AfterValidator(_member)]

ANYONE = "*"
"""Everyone who can log in."""


class Access(SettingsSection):
    """Access to the explorer: login, roles and limits. Without a login only this machine is served."""

    login: Literal["none", "header", "oidc"] = Field(
        default="none",
        description="none: everyone who reaches it sees all; header: a proxy in front names the person; oidc: OpenID "
        "Connect",
    )
    url: Site = Field(
        default="", description="address in people's browsers, such as https://trackside.example.com; needed for oidc"
    )
    proxies: tuple[Network, ...] = Field(
        default=(), description="addresses of proxies whose headers are trusted; needed for header"
    )
    user_header: HeaderName = Field(default="X-Forwarded-User", description="header with the user's name")
    groups_header: HeaderName = Field(
        default="X-Forwarded-Groups", description="header with the user's groups, separated by commas"
    )
    issuer: Site = Field(default="", description="address of the OpenID provider")
    client_id: str = Field(default="", description="client id of this Trackside at the provider")
    client_secret_file: Path | None = Field(
        default=None, description="file with the client's secret; else the environment has it: TRACKSIDE_OIDC_SECRET"
    )
    scopes: tuple[str, ...] = Field(
        default=("openid", "profile"), description="scopes that are requested from the provider"
    )
    user_claim: str = Field(
        default="preferred_username", description="claim with the user's name, as it is in Slurm's accounting"
    )
    groups_claim: str = Field(default="groups", description="claim with the user's groups")
    admins: tuple[Member, ...] = Field(default=(), description='admins: "user:NAME" or "group:NAME"')
    operators: tuple[Member, ...] = Field(default=(), description="operators: they see all, and have the page SQL")
    viewers: tuple[Member, ...] = Field(
        default=(ANYONE,), description="viewers: they see their own runs and sums; everyone who can log in"
    )
    account_groups: Annotated[str, AfterValidator(_group_pattern)] = Field(
        default="",
        description="groups that name an account whose runs their members may see: a regular expression with one group "
        "in brackets, such as ^slurm-(.+)$",
    )
    session_hours: float = Field(default=12.0, gt=0, le=720, description="a login ends after this time")
    idle_hours: float = Field(default=2.0, gt=0, le=720, description="a login ends after this time without a request")
    requests_per_minute: int = Field(default=600, ge=10, le=1_000_000, description="most requests of one person")
    logins_per_minute: int = Field(
        default=30, ge=3, le=1_000_000, description="most requests without a login from one address"
    )
    metrics_token_file: Path | None = Field(
        default=None, description="file with the token with which Prometheus reads /metrics where people log in"
    )
    audit_file: Path | None = Field(
        default=None,
        description="log of who saw and changed what; with a login it is there: trackside-audit.jsonl beside the "
        "warehouse directory; needed where the warehouse is a lake",
    )
    audit_mb: float = Field(default=50.0, ge=0.01, le=10_000, description="size at which a new file is begun")
    audit_files: int = Field(default=10, ge=1, le=1_000, description="how many full ones are kept")

    @model_validator(mode="after")
    def _is_whole(self) -> Access:
        needed = {"header": ("proxies",), "oidc": ("url", "issuer", "client_id")}.get(self.login, ())
        missing = [name for name in needed if not getattr(self, name)]
        if missing:
            message = f'login = "{self.login}" needs {" and ".join(missing)}'
            raise ValueError(message)
        return self

    @property
    def needs_login(self) -> bool:
        """Whether people log in."""
        return self.login != "none"

    @property
    def host(self) -> str:
        """Name of the machine in `url`; empty where there is none."""
        return (urlsplit(self.url).hostname or "").lower()

    def beside(self, folder: Path) -> Access:
        """The same with files relative to a folder."""
        names = ("client_secret_file", "metrics_token_file", "audit_file")
        files = {name: getattr(self, name) for name in names}
        return self.model_copy(
            update={name: None if file is None else folder / file.expanduser() for name, file in files.items()}
        )
