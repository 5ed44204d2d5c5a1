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


def protect(made: Dash) -> None:
    """Send the headers with every answer. Call it when all callbacks are there, for their scripts are named by hash."""
    scripts = " ".join(["'self'", *made.csp_hashes()])
    policy = "; ".join(f"{name} {value}" for name, value in ({"script-src": scripts} | _POLICY).items())

    def with_headers(response: Response) -> Response:
        response.headers.setdefault("Content-Security-Policy", policy)
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.setdefault("X-Frame-Options", "DENY")
        response.headers.setdefault("Referrer-Policy", "no-referrer")
        response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        return response

    made.server.after_request(with_headers)
