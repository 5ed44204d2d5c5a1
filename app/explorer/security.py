"""Headers that keep a page from loading, sending or running anything from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dash import Dash
    from flask import Response

_POLICY = {
    "default-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data: blob:",
    "font-src": "'self' data:",
    # The component libraries write their styles into the page. Scripts, which could do harm, are Trackside's alone.
    "style-src": "'self' 'unsafe-inline'",
    "object-src": "'none'",
    "base-uri": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}


_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_ENCRYPTED_ONLY = {"Strict-Transport-Security": "max-age=31536000"}


def protect(made: Dash, *, encrypted: bool = False) -> None:
    """Send the headers with every answer. Call it when all callbacks are there, for their scripts are named by hash.

    Args:
        made: the application.
        encrypted: whether people reach it by https only: browsers then remember that for a year.
    """
    scripts = " ".join(["'self'", *made.csp_hashes()])
    headers = _HEADERS | (_ENCRYPTED_ONLY if encrypted else {})
    policy = "; ".join(f"{name} {value}" for name, value in ({"script-src": scripts} | _POLICY).items())

    def with_headers(response: Response) -> Response:
        response.headers.setdefault("Content-Security-Policy", policy)
        for name, value in headers.items():
            response.headers.setdefault(name, value)
        return response

    made.server.after_request(with_headers)
