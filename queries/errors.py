"""Errors of a warehouse. Each message has the fault, the place, and what to do.

WarehouseError
 +- NoWarehouseError        nothing has been ingested into it yet, or it is another kind of folder
 +- CorruptWarehouseError   the file cannot be read as a warehouse
 +- NewerWarehouseError     written by a newer Trackside
 +- LockedWarehouseError    another process is writing
 +- WriteError              disk full, no permission
 +- CheckError              a check that stops found offending rows; nothing was committed
 +- StoppedError            a reader was stopped before it had its rows
QueryError                  a person's SQL was refused or failed
"""

from __future__ import annotations


class WarehouseError(RuntimeError):
    """The warehouse cannot be used as requested."""


class NoWarehouseError(WarehouseError):
    """There is no warehouse at this place."""


class CorruptWarehouseError(WarehouseError):
    """The warehouse file cannot be read."""


class NewerWarehouseError(WarehouseError):
    """The warehouse was written by a newer Trackside."""


class LockedWarehouseError(WarehouseError):
    """Another process holds the warehouse for writing, or this one has it open with other settings."""


class WriteError(WarehouseError):
    """The warehouse cannot be written: disk full, or no permission."""


class CheckError(WarehouseError):
    """A data check found rows that must not be committed."""


class StoppedError(WarehouseError):
    """A reader was stopped before it had its rows: by a person, or since it took too long."""


class QueryError(ValueError):
    """A person's SQL was refused or failed."""
