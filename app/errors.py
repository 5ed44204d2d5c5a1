"""Errors of the command line, and the one table from kind of error to exit status.

`verify` uses 3 (a claim is refuted) and 4 (undetermined), `report check` 3 as well; no error uses them.
"""

from __future__ import annotations

import threading

from ingest import errors as ingest
from queries import errors as queries


class UsageError(ingest.OptionError):
    """The request cannot be fulfilled as it was made."""


class UncoveredError(UsageError):
    """A cluster has no data in the period."""


class ConfigError(ValueError):
    """The configuration cannot be used; the message lists every mistake."""


class NothingToComputeError(ValueError):
    """No cluster has accounting in the period, so nothing was computed."""


class ClaimsError(ValueError):
    """The claims file cannot be used; the message lists every mistake."""


class OutboxError(OSError):
    """The outbox of scheduled reports cannot be read or written."""


class DeliveryError(RuntimeError):
    """A report was not made, or not delivered to every target; the message lists which."""


class FleetError(RuntimeError):
    """Clusters of a fleet could not be brought up to date; the message lists which, and why."""


REFUTED = 3
UNDETERMINED = 4
INTERNAL = 70
INTERRUPTED = 130

EXIT_STATUS: dict[type[Exception], tuple[int, str]] = {
    ingest.OptionError: (2, "the command cannot do what was requested"),
    ConfigError: (10, "mistakes in the configuration"),
    ClaimsError: (11, "mistakes in the claims file"),
    ingest.SourceMissingError: (20, "a source's command is not installed here"),
    ingest.SourceDownError: (21, "a source does not answer"),
    ingest.ServerDownError: (22, "a server does not answer, or not properly"),
    ingest.SourceError: (23, "a source cannot be used for another reason"),
    ingest.UnrecognisedInputError: (30, "a file is empty or none of the kinds that are accepted"),
    ingest.TruncatedInputError: (31, "a file ends in the middle of a row"),
    ingest.DelimiterError: (32, "a file is not delimited as specified"),
    ingest.MissingColumnError: (33, "a file lacks a column"),
    ingest.TimeZoneError: (34, "times carry no zone and none was given"),
    ingest.InputError: (35, "a file cannot be used for another reason"),
    queries.NoWarehouseError: (40, "there is no warehouse yet, or the folder is another kind"),
    queries.CorruptWarehouseError: (41, "the warehouse cannot be read"),
    queries.NewerWarehouseError: (42, "the warehouse was written by a newer Trackside"),
    queries.LockedWarehouseError: (43, "another process is writing the warehouse"),
    queries.WriteError: (44, "the disk is full or may not be written"),
    queries.CheckError: (45, "a data check stopped the work; nothing was changed"),
    queries.WarehouseError: (46, "the warehouse cannot be used for another reason"),
    NothingToComputeError: (47, "nothing was computed: no accounting is loaded, or none of the period"),
    OutboxError: (48, "the outbox of scheduled reports beside the warehouse cannot be used"),
    DeliveryError: (49, "a report was not made, or not delivered to every target"),
    FleetError: (51, "a cluster of a fleet was not brought up to date; the others were"),
    queries.QueryError: (50, "a query was refused or failed"),
}


def exit_status(error: Exception) -> int | None:
    """Exit status of an error that a person can resolve; None for any other (a fault of Trackside).

    >>> exit_status(UsageError("no"))
    2
    """
    for kind in type(error).__mro__:
        if kind in EXIT_STATUS:
            return EXIT_STATUS[kind][0]
    return None


def was_interrupted(error: BaseException | None) -> bool:
    """Whether a Ctrl-C is behind it: DuckDB wraps one into errors of its own.

    >>> was_interrupted(RuntimeError("INTERRUPT Error: Query interrupted")), was_interrupted(OSError("disk full"))
    (True, False)
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or "query interrupted" in str(error).lower():
            return True
        error = error.__cause__ or error.__context__
    return False


def raise_interrupt(error: BaseException) -> None:
    """Go on with a Ctrl-C that came as an error of a step, where those are noted and the next step follows.

    Only the main thread gets one: whoever interrupts DuckDB in another means that query alone.

    Raises:
        KeyboardInterrupt: a Ctrl-C is behind it.
    """
    if threading.current_thread() is threading.main_thread() and was_interrupted(error):
        raise KeyboardInterrupt from error
