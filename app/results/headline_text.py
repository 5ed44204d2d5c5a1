"""Numbers and times as the explorer writes them: the texts of `app.console`, with their units."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from app.formatting import display, measured
from app.results.headlines import headline_is_of
from ingest.counted import counted

if TYPE_CHECKING:
    from app.results.headlines import Headline
    from metrics.claims.verdict import Claim, Judged

TELLABLE = 0.0005
"""Ends of a ratio that lie less apart than this read the same."""

_NAMED_BY_JOB = re.compile(r"([^@]+)-\d{8}T\d{6}Z")


def run_label(run_id: str | None) -> str:
    """What a table calls a run: by its first job, where the id is a job's id and the time of its submission.

    >>> run_label("6216-20261024T225638Z"), run_label("llama-7b"), run_label(None)
    ('job 6216', 'llama-7b', '-')
    >>> run_label("llama-7b@106-20261024T225638Z")
    'llama-7b@106-20261024T225638Z'
    """
    if run_id is None:
        return "-"
    found = _NAMED_BY_JOB.fullmatch(run_id)
    return run_id if found is None else f"job {found[1]}"


def headline_value(headline: Headline) -> str:
    """The headline's number as it is shown everywhere in the explorer."""
    return measured(headline.value, headline.unit)


def headline_text(headline: Headline) -> str:
    """The headline's number in words: a lower bound is marked as such, with the upper one."""
    high = at_most(headline)
    if high is None:
        return headline_value(headline)
    return f"at least {headline_value(headline)}, at most {measured(high, headline.unit)}"


def bounds_text(headline: Headline) -> str | None:
    """What a headline lies between, in words; None where it has no bounds, or they meet."""
    if headline.bound_low is None or headline.bound_high is None or headline.bound_low == headline.bound_high:
        return None
    low, high = (measured(end, headline.unit) for end in (headline.bound_low, headline.bound_high))
    return f"at least {low}, at most {high}"


def at_most(headline: Headline) -> float | None:
    """The upper bound of a headline that is itself the lower one; None where it is not, or where they read the same."""
    value, low, high = headline.value, headline.bound_low, headline.bound_high
    if value is None or low is None or high is None or high - low < TELLABLE:
        return None
    return high if math.isclose(value, low, rel_tol=1e-9) else None


def judged_as(claim: Claim, headline: Headline) -> str | None:
    """What a claim is judged on, where that is another number than the headline; None where it is the same."""
    if headline_is_of(claim, headline):
        return None
    differences = [f"in runs of {claim.min_run_s / 3600:g} h or more"] if claim.min_run_s else []
    differences += [f"at {claim.gpus:,g} GPUs"] if claim.gpus != headline.gpus else []
    differences += [f"by the convention {claim.flop_convention}"] if claim.flop_convention else []
    differences += [claim.narrowed] if claim.narrowed else []
    return ", ".join(differences)


def judged_value(judged: Judged) -> str:
    """What a claim was judged by: the value, or what it lies between.

    An unknown value is never made up from its ends.
    """
    claim, found = judged.claim, judged.measured
    if found.value is not None or found.low is None:
        return measured(found.value, claim.unit)
    high = "no limit" if found.high in {None, math.inf} else measured(found.high, claim.unit)
    return f"{measured(found.low, claim.unit)} to {high}"


def interval_text(headline: Headline) -> str | None:
    """A headline's confidence interval in words; None where it has none."""
    if headline.ci_low is None:
        return None
    high = "no upper limit" if headline.ci_high is None else measured(headline.ci_high, headline.unit)
    return f"95 % interval {measured(headline.ci_low, headline.unit)} to {high}"


def fraction_text(headline: Headline) -> str | None:
    """Numerator over denominator in words, or how many events are behind it."""
    pooled = pooled_text(headline) if headline.metric == "mttf" else None
    if pooled is not None and headline.denominator is not None:
        interruptions = counted(round(headline.denominator), "interruption")
        return f"{pooled} / {interruptions} (from jobs of all sizes, by 1/N)"
    parts = headline.definition.parts
    if parts is not None and headline.numerator is not None and headline.denominator is not None:
        if parts.unit == "flop":  # the amounts have their unit: "model 1.58 YFLOP / peak 3.9 YFLOP"
            top = parts.numerator.replace("FLOP", amount(headline.numerator, "flop"))
            return f"{top} / {parts.denominator.replace('FLOP', amount(headline.denominator, 'flop'))}"
        top = f"{amount(headline.numerator, parts.unit)} {parts.numerator}"
        return f"{top} / {amount(headline.denominator, parts.unit, whole=True)} {parts.denominator}"
    return None if headline.n is None else counted(headline.n, "restart")


def pooled_text(headline: Headline) -> str | None:
    """The numerator of an MTTF: GPU-days of jobs of all sizes over the size that it is quoted at."""
    if headline.numerator is None or headline.gpus is None:
        return None
    return f"{amount(headline.numerator * headline.gpus, 'number')} GPU-days / {gpus(headline.gpus)} GPUs"


def amount(value: float | None, unit: str, *, whole: bool = False) -> str:
    """An amount, of FLOP with its unit, else without; large ones have no decimals.

    >>> amount(4_320_000.0, "gpu_h"), amount(360.0, "gpu_h"), amount(1.5e21, "flop"), amount(12.0, "number", whole=True)
    ('1,200', '0.10', '1.5 ZFLOP', '12')
    """
    if value is None:
        return "-"
    if unit == "flop":
        return display(value, "flop")
    number = value / 3600 if unit == "gpu_h" else value
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    if whole and number == int(number):
        return f"{number:,.0f}"
    if abs(number) >= 100:
        return f"{number:,.1f}"
    return f"{number:.2f}" if number else "0"


def hours(gpu_hours: float | None) -> str:
    """GPU-hours.

    >>> hours(12345.6), hours(0.5), hours(None)
    ('12,346', '0.50', '-')
    """
    return amount(gpu_hours, "number")


def share(value: float | None) -> str:
    """A share.

    >>> share(0.123), share(0.0001), share(None)
    ('12.3 %', '< 0.1 %', '-')
    """
    return display(value, "ratio")


def gpus(value: Any) -> str:  # noqa: ANN401 - decimal, float or None
    """A number of GPUs; fractions only where there are some.

    >>> gpus(1024.0), gpus(0.5)
    ('1,024', '0.5')
    """
    return display(value, "count")


def days(seconds: float) -> str:
    """The length of a window.

    >>> days(86400.0 * 61), days(3600.0)
    ('61 days', '1 h')
    """
    if seconds >= 2 * 86_400:
        length = seconds / 86_400
        return f"{length:.0f} days" if abs(length - round(length)) < 0.05 else f"{length:.1f} days"
    return display(seconds, "seconds")
