"""Verdicts as a person reads them: a line for each claim first; readings, evidence and arithmetic with `--explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.formatting import NOTHING, display, measured
from app.terminal.cells import wrap
from app.terminal.colour import paint
from app.terminal.rows import RowOptions
from app.terminal.table import TextTable, table_lines
from app.visible import escapes
from ingest.counted import counted
from metrics.failures.size_law import CONTRADICTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.terminal.colour import Meaning
    from app.terminal.terminal import Terminal
    from metrics.claims.verdict import Judged

AS_READ: Final = "up to"
"""Words of a claim that no data can refute; only a reading of it can be refuted."""

PEAK_IN_USE: Final = "over the dense peak of the fastest data type in use"
"""How a claim on an MFU is read that names no data type; another reading has another verdict."""

EXTRAPOLATED: Final = (
    f'from jobs of all sizes; {CONTRADICTED}. Jobs of about {{:,.10g}} GPUs alone: population = "bucket" in --claims'
)
"""Caveat of a verdict on an MTTF whose scaling to the claim's number of GPUs the data contradict."""

_MEANINGS: Final[dict[str, Meaning]] = {"supported": "good", "refuted": "bad", "undetermined": "warning"}
_CONTROLS: Final = escapes()
_ALL: Final = RowOptions(every=True)

_RANKED: Final = ("claim", "measured", "target")
_COLUMNS: Final = {
    "verdict": ("verdict", "text"),
    "claim": ("claim", "text"),
    "measured": ("measured", "text"),
    "target": ("claimed", "text"),
    "quoted": ("in these words", "text"),
}


def verdict_word(judged: Judged) -> str:
    """The verdict in words."""
    return word_of(judged.verdict, judged.claim.quoted)


def word_of(verdict: str, quoted: str) -> str:
    """A verdict in words: of a claim of "up to" what is refuted is how it is read.

    >>> word_of("refuted", "Up to 96 % goodput"), word_of("refuted", "96 % goodput")
    ('refuted as read', 'refuted')
    """
    return "refuted as read" if verdict == "refuted" and AS_READ in quoted.lower() else verdict


def verdict_lines(judged: Sequence[Judged], where: str, terminal: Terminal, *, explain: bool = False) -> list[str]:
    """A line for each claim, what would decide the undetermined ones, and what is left out by agreement.

    Args:
        judged: claims with their verdicts.
        where: cluster and time.
        terminal: where it is printed.
        explain: also print how each claim is read, the evidence and the arithmetic.
    """
    lines = [
        *_painted(_counts(judged), "strong", terminal),
        *_painted(f"Claims against {where}", "quiet", terminal),
        *([""] if terminal.is_terminal else []),
        *table_lines(TextTable(_rows(judged), _COLUMNS, ranked=_RANKED, hint="--explain"), terminal, _ALL),
        *_below(judged, terminal),
    ]
    if explain:
        return [*lines, *(line for each in judged for line in ["", *_explained(each, terminal)])]
    return [*lines, "How each claim is read, the evidence and the arithmetic: --explain"]


def _counts(judged: Sequence[Judged]) -> str:
    """How many there are of each verdict."""
    words = [each.verdict for each in judged]
    parts = [f"{words.count(word)} {word}" for word in ("refuted", "undetermined", "supported") if word in words]
    return f"{len(judged)} claim{'' if len(judged) == 1 else 's'}: {', '.join(parts)}."


def _rows(judged: Sequence[Judged]) -> pl.DataFrame:
    rows = [
        (
            verdict_word(each),
            each.claim.id,
            _measured(each),
            target_text(each),
            f"“{each.claim.quoted}”",
        )
        for each in judged
    ]
    return pl.DataFrame(rows, dict.fromkeys(_COLUMNS, pl.String), orient="row")


def _measured(judged: Judged) -> str:
    """The number with what it lies between."""
    result, unit, more = judged.measured, judged.claim.unit, more_digits(judged)
    value = measured(result.value, unit, null=NOTHING, more=more)
    if result.low is None or (result.low == result.high == result.value):
        return value
    between = f"{measured(result.low, unit, more=more)} to {_high(judged, 1)}"
    return between if result.value is None else f"{value} ({between})"


def target_text(judged: Judged, digits: int = 1) -> str:
    """What a claim demands, as "at least 96.0 %"; arguments as of `more_digits`."""
    claim = judged.claim
    side = "at least" if claim.direction == "at_least" else "at most"
    return f"{side} {measured(claim.target, claim.unit, digits=digits, more=more_digits(judged, digits))}"


def more_digits(judged: Judged, digits: int = 1) -> int:
    """How many digits more than usual show that what misses the target is not the target: mostly none.

    Args:
        judged: the claim, and what was measured.
        digits: the usual decimals of a percentage.
    """
    claim, result = judged.claim, judged.measured
    sign = 1.0 if claim.direction == "at_least" else -1.0
    ends = (result.value, result.low, result.high)
    missing = [end for end in ends if end is not None and sign * end < sign * claim.target]
    for more in range(_MOST_MORE):
        target = measured(claim.target, claim.unit, digits=digits, more=more)
        if all(measured(end, claim.unit, digits=digits, more=more) != target for end in missing):
            return more
    return _MOST_MORE


_MOST_MORE: Final = 12
"""Beyond these a number in binary has digits of its own."""


def _high(judged: Judged, digits: int) -> str:
    high, more = judged.measured.high, more_digits(judged, digits)
    if high == float("inf"):
        return "no limit"
    return measured(high, judged.claim.unit, digits=digits, null=NOTHING, more=more)


def _below(judged: Sequence[Judged], terminal: Terminal) -> list[str]:
    """Notes below the lines: scopes, agreed exclusions, and the evidence that would decide."""
    texts = []
    for each in judged:
        claim = each.claim
        known = [claim.narrowed] if claim.narrowed else []
        known += [PEAK_IN_USE] if claim.metric == "mfu" and claim.dtype is None else []
        known += [EXTRAPOLATED.format(claim.gpus or 0)] if CONTRADICTED in (each.measured.method or "") else []
        known += [f"left out {one.words()}" for one in claim.exclusions]
        needed = each.measured.needed if each.verdict == "undetermined" else ""
        known += [needed if needed.startswith("cannot tell") else f"to decide: {needed}"] if needed else []
        texts += [f"{claim.id}: {text}" for text in known]
    return [line for text in texts for line in wrap(_in_line(text), terminal.width, indent="  ", first="")]


def _painted(text: str, meaning: Meaning, terminal: Terminal) -> list[str]:
    return [paint(line, meaning, colours=terminal.colours) for line in wrap(text, terminal.width)]


def _explained(judged: Judged, terminal: Terminal) -> list[str]:
    """The words quoted, what was tested, the numbers, what is missing."""
    claim = judged.claim
    word = verdict_word(judged).upper()
    text = _in_line(f"{claim.id}: “{claim.quoted}”")
    first, *more = wrap(text, terminal.width, indent="  ", first=f"{word}  ")
    painted = paint(word, _MEANINGS[judged.verdict], colours=terminal.colours)
    lines = [first.replace(word, painted, 1), *more]
    target = f"{target_text(judged, 2)}   ({claim.kind})"
    for heading, text in (("read as", claim.read_as), ("target", target), *_details(judged)):
        lines += wrap(_in_line(text), terminal.width, indent=" " * 13, first=f"  {heading:<10} ")
    return lines


def _in_line(text: str) -> str:
    """Text of any length in one line that leaves the terminal as it is."""
    return text.replace("\n", " ").translate(_CONTROLS)


def _details(judged: Judged) -> list[tuple[str, str]]:
    """What is reported of a verdict, by heading: only what there is."""
    claim, result, more = judged.claim, judged.measured, more_digits(judged, 2)
    low, high = measured(result.low, claim.unit, digits=2, null=NOTHING, more=more), _high(judged, 2)
    count = "" if result.n is None else f", n = {result.n}"
    rows = [("scope", claim.narrowed)] if claim.narrowed else []
    if claim.window and judged.since and judged.until:
        rows.append(("window", f"{display(judged.since, 'time')} to {display(judged.until, 'time')}"))
    value = measured(result.value, claim.unit, digits=2, null=NOTHING, more=more)
    rows.append(("measured", f"{value}, from {low} to {high}{count}   [{result.method or 'no data'}]"))
    if result.level:
        rows.append(("evidence", result.level))
    rows += [("beside", text) for text in result.beside]
    rows += [("left out", one.words()) for one in claim.exclusions]
    if claim.exclusions:
        hours = [] if result.excluded_gpu_s is None else [f"{display(result.excluded_gpu_s, 'gpu_h')} GPU-hours"]
        time = [f"{display(result.excluded_s, 'seconds')} of the window"] if result.excluded_s or not hours else []
        rows.append(("", f"together {', '.join(time + hours)}"))
    if judged.adjudications:
        rows.append(
            ("corrected", f"by {counted(judged.adjudications, 'correction')} of persons: trackside adjudicate list")
        )
    if judged.verdict == "undetermined" and result.needed:
        rows.append(("needed", result.needed))
    return rows
