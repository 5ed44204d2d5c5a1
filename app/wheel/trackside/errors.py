"""The exceptions that questions and `sql` raise; each message states what is wrong and what to do."""

from app.errors import ConfigError, UncoveredError, UsageError
from queries.errors import (
    CorruptWarehouseError,
    NewerWarehouseError,
    NoWarehouseError,
    QueryError,
    WarehouseError,
)

__all__ = [
    "ConfigError",
    "CorruptWarehouseError",
    "NewerWarehouseError",
    "NoWarehouseError",
    "QueryError",
    "UncoveredError",
    "UsageError",
    "WarehouseError",
]
