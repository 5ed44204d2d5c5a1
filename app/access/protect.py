"""Put the rules of the configuration in front of a web application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.access import audit
from app.access.audit import AuditLog
from app.access.guard import Guard
from app.access.oidc import read_secret
from app.access.sessions import Sessions

if TYPE_CHECKING:
    from pathlib import Path

    from flask import Flask

    from app.config.access import Access


def protect(application: Flask, access: Access, root: Path) -> Guard:
    """Check every request of an application by the rules; add the paths of a login.

    Args:
        application: what answers.
        access: the rules.
        root: the warehouse directory; the audit log is beside it where the configuration names no other place.

    Raises:
        ConfigError: a file with a secret cannot be read.
        UsageError: the audit log cannot be written.
    """
    file = access.audit_file or (root.absolute().parent / audit.NAME if access.asks_who else None)
    log = AuditLog(file, megabytes=access.audit_mb, files=access.audit_files)
    sessions = None
    if access.login == "oidc":
        from app.access.login import Login  # noqa: PLC0415 - only where people log in here
        from app.access.oidc import Provider, secret_of  # noqa: PLC0415 - as above

        sessions = Sessions(lasts_s=access.session_hours * 3600, idle_s=access.idle_hours * 3600)
        Login(access, Provider(access, secret_of(access)), sessions, log).register(application)
    token = read_secret(access.metrics_token_file, "metrics_token_file")
    made = Guard(access, log, sessions, token)
    made.protect(application)
    return made
