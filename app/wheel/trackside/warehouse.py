"""`trackside.Warehouse`, as `app.api` makes it; the types are in the stub next to this file, which is generated."""

from app.api import Answer, TracksideWarning, Warehouse

__all__ = ["Answer", "TracksideWarning", "Warehouse"]
