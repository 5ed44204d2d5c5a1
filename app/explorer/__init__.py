"""The explorer: what a cluster's GPU-time became, in a browser. Every number comes from the functions behind `show`.

    url -> view (checked) -> AnswerCache (once per data version) -> layout

Filters live in the address, so that a copied link opens the same view. Nothing is loaded from another host.
"""

from __future__ import annotations

from app.explorer.application import create_app

__all__ = ["create_app"]
