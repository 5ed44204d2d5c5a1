"""Errors of reading a source. Each message has the fault, its place, and a hint.

SourceError                  a live source could not be read
 +- SourceMissingError       the command is not installed on this machine
 +- SourceDownError          the command ran and failed
 +- ServerDownError          a server did not answer, or not properly
InputError                   a file or an answer could not be understood
 +- UnrecognisedInputError   it is none of the kinds of text we read
 +- TruncatedInputError      it ends in the middle of a row
 +- DelimiterError           the columns cannot be separated
 +- MissingColumnError       a required column is missing
 +- TimeZoneError            local times of an unknown zone
 +- DamagedStreamError      the content of a packed stream cannot be read
 +- YearError                times without a year
 +- UntimedError             it is a snapshot whose time is unknown
 +- FormatMistakeError       it is of a format of the configuration that has a mistake
OptionError                  what was requested cannot be done with these options
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN_LINES = 4
SHOWN_CHARACTERS = 160


def shorten(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    r"""Text fit for one line of a message: control characters escaped, cut at `limit`.

    >>> shorten("a\x1fb\n", 4)
    'a\\x1...'
    """
    shown = text.strip().encode("unicode_escape").decode("ascii") if not text.isprintable() else text.strip()
    return shown if len(shown) <= limit else shown[:limit] + "..."


class SourceError(RuntimeError):
    """A live source could not be read."""


class SourceMissingError(SourceError):
    """The command is not installed on this machine."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        super().__init__(
            f"{self.command[0]} is not installed here (not on PATH).\n"
            f"Run this on a machine with the Slurm client commands, or load a file written there:\n"
            f"  trackside ingest slurm FILE"
        )


class SourceDownError(SourceError):
    """The command ran and failed, or did not answer in time. Its output before that is not used."""

    def __init__(self, command: Sequence[str], status: int | None, stderr: str, hint: str = "") -> None:
        self.command = list(command)
        self.status = status
        self.stderr = "\n".join(stderr.strip().splitlines()[:SHOWN_LINES])
        how = "did not answer in time" if status is None else f"failed with exit status {status}"
        stderr_lines = "".join(f"\n  {shorten(line)}" for line in self.stderr.splitlines())
        super().__init__(
            f"{self.command[0]} {how}.{stderr_lines}\n{hint or 'Its output was not used; try again later.'}"
        )


class ServerDownError(SourceError):
    """A server cannot be reached, refuses us, or is of another kind. `url` holds no secrets.

    `unreachable`: no answer, or not to the end; else it answered with an error.
    """

    def __init__(self, url: str, what: str, hint: str, *, unreachable: bool = False) -> None:
        self.url = url
        self.unreachable = unreachable
        super().__init__(f"{url} {what}\n{hint}")


class OptionError(ValueError):
    """What was requested cannot be done with these options, whatever the sources hold."""


class InputError(ValueError):
    """A file or an answer could not be understood."""


class DamagedStreamError(InputError):
    """A packed stream is damaged."""


class UntimedError(InputError):
    """An input is a snapshot whose time is unknown."""


class FormatMistakeError(InputError):
    """An input is of a format of the configuration that has a mistake."""


class UnrecognisedInputError(InputError):
    """The input is none of the kinds of text we read."""


class TruncatedInputError(InputError):
    """The input ends in the middle of a row, or of its compressed stream."""


class DelimiterError(InputError):
    """The columns cannot be separated with the delimiter tried."""


class MissingColumnError(InputError):
    """A required column is missing."""


class TimeZoneError(InputError):
    """Times without an offset, and no zone (or an unknown one) to read them in.

    `command` is the command to run again for times that need no zone; None where it cannot print those.
    """

    def __init__(
        self, origin: str, column: str, sample: str, timezone: str | None = None, *, command: str | None = "sacct ..."
    ) -> None:
        self._details = (origin, column, sample, timezone)
        self.sample = sample
        problem = (
            f"{origin}: {column} is a local time without an offset: {shorten(sample)}"
            if timezone is None
            else f"{origin}: no time zone is called {timezone!r} ({column} is {shorten(sample)})"
        )
        again = "" if command is None else f"\nor export again with times that need no zone: {_with_epochs(command)}"
        super().__init__(
            f"{problem}\nPass the zone of the machine that ran the command: --timezone Europe/Berlin{again}"
        )

    def of(self, command: str | None) -> TimeZoneError:
        """The same about the output of another command than sacct."""
        return TimeZoneError(*self._details, command=command)


class YearError(InputError):
    """Times without a year, and no other source of it."""

    def __init__(self, origin: str, sample: str) -> None:
        self.sample = sample
        super().__init__(
            f"{origin}: its time has no year: {shorten(sample)}\n"
            "Pass the year in which the log begins: --year 2026\n"
            "(or --begin with its first day, or --set job_id= of a job whose accounting is loaded)"
        )


def _with_epochs(command: str) -> str:
    """The command with times in seconds; behind a pipe the setting is before the command itself.

    >>> _with_epochs("echo n | sacctmgr show runawayjobs")
    'echo n | SLURM_TIME_FORMAT=%s sacctmgr show runawayjobs'
    """
    before, pipe, slurm = command.rpartition("| ")
    return f"{before}{pipe}SLURM_TIME_FORMAT=%s {slurm}"
