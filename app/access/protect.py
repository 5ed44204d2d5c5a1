"""Put the rules of the configuration in front of a web application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.access import audit
from app.access.audit import AuditLog
from app.access.guard import Guard
from app.access.oidc import read_secret
from app.access.sessions import Sessions
from app.errors import UsageError
from queries.lake.address import address_of

if TYPE_CHECKING:
    from pathlib import Path

    from flask import Flask

    from app.config.access import Access


def protect(application: Flask, access: Access, root: Path) -> Guard:
    """Check every request of an application by the rules; add the paths of a login.

    Args:
        application: the web application.
        access: the rules.
        root: the warehouse directory, or a lake.

    Raises:
        ConfigError: a file with a secret cannot be read.
        UsageError: the audit log cannot be written, or has no place.
    """
    log = AuditLog(_audit_file(access, root), megabytes=access.audit_mb, files=access.audit_files)
    sessions = None
    if access.login == "oidc":
        from app.access.login import LoginPaths  # noqa: PLC0415 - only where people log in here
        from app.access.oidc import Provider, secret_of  # noqa: PLC0415 - as above

        sessions = Sessions(lasts_s=access.session_hours * 3600, idle_s=access.idle_hours * 3600)
        LoginPaths(access, Provider(access, secret_of(access)), sessions, log).register(application)
    token = read_secret(access.metrics_token_file, "metrics_token_file")
    made = Guard(access, log, sessions, token)
    made.protect(application)
    return made


def _audit_file(access: Access, root: Path) -> Path | None:
    """The configured one; else, where people log in, beside the warehouse directory. A lake has none."""
    if access.audit_file is not None or not access.needs_login:
        return access.audit_file
    if address_of(root) is not None:
        raise UsageError(
            "the warehouse is a lake, so there is no directory beside which the audit log could be;\n"
            f'name its file in [access], for example: audit_file = "/var/log/trackside/{audit.NAME}"'
        )
    return root.absolute().parent / audit.NAME
