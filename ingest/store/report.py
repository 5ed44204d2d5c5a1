"""The result of a load: loaded or not, counts of rows, warnings, in a line or summed up over many inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polars.exceptions import PanicException, PolarsError

from ingest.counted import counted
from ingest.errors import InputError, OptionError, SourceError
from ingest.iso_time import iso

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ingest.load_warnings import LoadWarning
    from ingest.tables import Parsed


FAULTS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError,
    PanicException, PolarsError,
)  # fmt: skip
"""Errors of code and data, without those that stop all inputs (a full disk, a signal to stop)."""


class InputFaultError(RuntimeError):
    """An input could not be loaded, for an unexpected reason. Other inputs are loaded."""


def fault_of(origin: str, error: BaseException) -> Exception:
    """The error to report for an input that could not be loaded, while the others are."""
    if isinstance(error, (InputError, OptionError, SourceError)):
        return error
    if isinstance(error, MemoryError):
        return InputError(f"{origin}: not enough memory on this machine; load it in parts")
    first = next(iter(str(error).splitlines()), "")
    fault = InputFaultError(f"{origin} could not be loaded ({type(error).__name__}: {first}); please report it")
    fault.__cause__ = error
    return fault


@dataclass(frozen=True)
class LoadReport:
    """The result of an input: loaded (`parsed`), or not (`error`); `reported_before`: warnings of the last load."""

    origin: str
    parsed: Parsed | None = None
    error: Exception | None = None
    reported_before: Collection[LoadWarning] = ()

    @property
    def fresh(self) -> list[LoadWarning]:
        """The warnings that the last load did not have."""
        return [each for each in self.parsed.warnings if each not in self.reported_before] if self.parsed else []


def first_error(reports: Sequence[LoadReport]) -> Exception | None:
    """The error that decides the exit status, if any input failed."""
    return next((report.error for report in reports if report.error is not None), None)


class LoadSummary(LoadReport):
    """The result of all answers of one source, read live."""

    @property
    def line(self) -> str:
        """All of it in one line."""
        return f"{self.parsed.source}  {self.origin}, {counts(self.parsed)}{self._warned()}" if self.parsed else ""

    def _warned(self) -> str:
        """The number of warnings; those of the last ingest are not repeated."""
        number = len(self.parsed.warnings) if self.parsed else 0
        old = number - len(self.fresh)
        again = f" ({old} as last time: trackside status)" if old else ""
        return f"; {counted(number, 'warning')}{again}" if number else ""


class Note(LoadSummary):
    """A warning that belongs to no answer."""

    @property
    def line(self) -> str:
        """The subject of the warning."""
        return self.origin


def summary(reports: Sequence[LoadReport]) -> str:
    """All inputs in one line: files, rows, warnings, and the time that they span."""
    loaded = [report.parsed for report in reports if report.parsed is not None]
    n_files = len({report.origin for report in reports if not isinstance(report, Note)})
    failed = len({report.origin for report in reports if report.parsed is None})
    taken = [_new_and_known(report) for report in reports if report.parsed is not None]
    counts = [
        f"{counted(sum(new for new, _ in taken), 'row')} new",
        f"{sum(n_known for _, n_known in taken):,} known already",
        f"{sum(each.rows_skipped for each in loaded):,} skipped",
        f"{sum(each.rows_rejected for each in loaded):,} rejected",
        counted(sum(len(each.warnings) for each in loaded), "warning"),
    ]
    files = counted(n_files, "file") + (f" ({failed:,} could not be loaded)" if failed else "")
    return f"{files}: {', '.join(counts)}{_span(loaded)}"


def _new_and_known(report: LoadReport) -> tuple[int, int]:
    """New and known rows; where new ones were not counted, all that were loaded may be new."""
    if report.parsed is None:
        return 0, 0
    new = report.parsed.rows_loaded if report.parsed.rows_new is None else report.parsed.rows_new
    return new, report.parsed.rows_loaded + report.parsed.rows_duplicate - new


def counts(parsed: Parsed) -> str:
    """Counts of an input's rows: loaded, duplicate, skipped, refused."""
    new = parsed.rows_new
    n_known = parsed.rows_loaded + parsed.rows_duplicate - (new or 0)
    taken = {"loaded": parsed.rows_loaded, "duplicate": parsed.rows_duplicate} if new is None else {"new": new}
    more = {} if new is None else {"known already": n_known}
    why = " (steps of jobs)" if parsed.source == "slurm.accounting" else ""
    headers = parsed.rows_of_headers
    rest = {
        f"skipped{why}": parsed.rows_skipped - headers,
        "repeated header" if headers == 1 else "repeated headers": headers,
        "rejected": parsed.rows_rejected,
    }
    first, *others = {**taken, **more, **rest}.items()
    shown = [first, *((name, count) for name, count in others if count)]
    return f"{counted(parsed.rows_read, 'row')}: " + ", ".join(f"{count:,} {name}" for name, count in shown)


def _span(loaded: Sequence[Parsed]) -> str:
    """The time that the inputs cover, from the first to the last; `trackside status` shows gaps within it."""
    since = min((each.covers_from for each in loaded if each.covers_from), default=None)
    until = max((each.covers_until for each in loaded if each.covers_until), default=None)
    return "" if since is None or until is None else f"; {iso(since)} to {iso(until)}"
