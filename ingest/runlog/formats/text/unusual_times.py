"""Which unusual times at the beginning of lines (`ingest.runlog.envelopes.stamps`) are times: the formats decide it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from ingest.runlog.envelopes.stamps import forms_of_most, in_usual_form, restamped
from ingest.runlog.formats.text.scan import scan
from ingest.runlog.text_format import NUMBERS

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Sequence

    from ingest.runlog.text_format import TextFormat


def with_usual_times(chunks: Iterable[bytes], origin: str, formats: Sequence[TextFormat]) -> Iterator[bytes]:
    """A log whose lines begin with usual times, as far as most lines of its steps have a time there.

    Args:
        chunks: the log.
        origin: its name, for messages.
        formats: those by which its steps are found.
    """
    return restamped(chunks, partial(_of_steps, origin, formats))


def _of_steps(
    origin: str, formats: Sequence[TextFormat], head: bytes, found: Sequence[re.Pattern[bytes]]
) -> Sequence[re.Pattern[bytes]]:
    """The forms that most steps in the beginning of a log have; none if a format reads what they would replace."""
    whole = head[: head.rfind(b"\n") + 1] or head
    as_written = _steps(whole, origin, formats)
    steps = _steps(in_usual_form(whole, found), origin, formats)
    if as_written.height and not as_written.equals(steps):
        return []
    lines = whole.split(b"\n")
    return forms_of_most([lines[number - 1] for number in steps["line"].unique().sort()], found)


def _steps(text: bytes, origin: str, formats: Sequence[TextFormat]) -> pl.DataFrame:
    """The lines of steps, with the numbers in them."""
    first = scan([text], origin, formats)[0]
    return first.records().filter(pl.col("kind").is_in(first.form.numbers_of("step"))).select("line", *NUMBERS)
