"""`trackside ingest prometheus`: a server (`live`) or files (`files`), into the warehouse (`writing`)."""

from app.telemetry.asked import Asked
from app.telemetry.files import ingest_files
from app.telemetry.live import READERS, ingest_live, names_of, wanted_of
from app.telemetry.server import connect

__all__ = ["READERS", "Asked", "connect", "ingest_files", "ingest_live", "names_of", "wanted_of"]
