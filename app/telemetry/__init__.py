"""`trackside ingest prometheus`: a server (`live`) or files (`files`), into the warehouse (`writing`)."""

from app.telemetry.asked import Asked
from app.telemetry.files import ingest_files
from app.telemetry.live import ingest_live
from app.telemetry.server import connect

__all__ = ["Asked", "connect", "ingest_files", "ingest_live"]
