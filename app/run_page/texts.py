"""Numbers, times and names as the page prints them: short, without noise, and safe for a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from app.formatting import display, measured
from app.visible import visible

if TYPE_CHECKING:
    from collections.abc import Sequence


def name(value: object, *, none: str = "-") -> str:
    r"""A text that users choose, in one line in which nothing hides.

    >>> name("a\nb\x1b[2J\u202e"), name(None)
    ('a b\ufffd[2J\\u202e', '-')
    """
    return none if value is None else " ".join(visible(str(value)).split()) or none


def share(value: float | None) -> str:
    """A share, with one decimal.

    >>> share(0.12345), share(None)
    ('12.3 %', 'cannot tell')
    """
    return measured(value, "ratio")


def count(value: Any) -> str:  # noqa: ANN401 - decimal, float or int
    """A number of things; fractions only where there are some.

    >>> count(1024.0), count(0.5)
    ('1,024', '0.5')
    """
    return display(value, "count")


def decimals(whole: float) -> int:
    """Decimals of the hours of a column with this sum.

    >>> decimals(173_551.0), decimals(42.0), decimals(0.5)
    (0, 1, 2)
    """
    return 0 if whole >= 1000 else 1 if whole >= 10 else 2 if whole >= 0.1 else 4


def hours(seconds: float, unit: str, *, of: float | None = None) -> str:
    """GPU-hours (or hours), with the decimals of the whole `of` which they are a part of, also in seconds.

    >>> hours(4_320_000.0, "GPU-h"), hours(90.0, "h"), hours(0.0, "h"), hours(5760.0, "h", of=460_800.0)
    ('1,200 GPU-h', '0.0250 h', '0 h', '1.6 h')
    """
    amount = seconds / 3600
    digits = decimals(abs(amount if of is None else of / 3600))
    return f"{amount:,.{digits}f} {unit}" if amount else f"0 {unit}"


def adding_up(values: Sequence[float], digits: int) -> list[float]:
    """Values rounded so that they add up to their rounded sum: the largest remainders are rounded up.

    The first is rounded by itself, since it is shown elsewhere, too.

    >>> adding_up([33.333, 33.333, 33.334], 1), sum(adding_up([33.333, 33.333, 33.334], 1))
    ([33.3, 33.3, 33.4], 100.0)
    >>> adding_up([93.15, 2.14, 2.35, 2.36], 1)
    [93.2, 2.1, 2.3, 2.4]
    """
    scale = 10**digits
    exact = [value * scale for value in values]
    whole = round(sum(exact))
    rounded = [round(float(f"{values[0]:.{digits}f}") * scale), *(math.floor(value) for value in exact[1:])]
    missing = max(0, whole - sum(rounded))
    order = sorted(range(1, len(exact)), key=lambda at: (rounded[at] - exact[at], at)) or [0]
    for at in order[:missing]:
        rounded[at] += 1
    return [value / scale for value in rounded]


def size(value: float) -> str:
    """Bytes, as Slurm counts them: in powers of 1024.

    >>> size(2.0 * 2**40), size(85.9e9)
    ('2.0 TiB', '80.0 GiB')
    """
    for unit, least in (("PiB", 2**50), ("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if value >= least:
            return f"{value / least:,.1f} {unit}"
    return f"{value / 2**10:,.1f} KiB"
