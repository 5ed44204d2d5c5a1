"""The scan in plain Python, one subject and one hour at a time: what `metrics.anomalies.scan` has to agree with."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from metrics.anomalies.day_sums import BIAS, CAP, MIN_OF_ATTEMPT, MIN_PAST_DAYS, MIN_SUBJECTS, PAST_DAYS, SPREAD
from metrics.anomalies.signals import BY_NAME

if TYPE_CHECKING:
    import polars as pl

Subject = tuple[str, str, str, str]


class Test(NamedTuple):
    """A test: how many hours, the highest sum, and the beginning and the end of the stretch before it."""

    hours: int = 0
    height: float = 0.0
    start: int = 0
    top: float = 0.0
    top_start: int = 0
    top_until: int = 0


def middle_of_scatter(values: list[float]) -> float:
    """Median absolute deviation, as a standard deviation."""
    centre = median(values)
    return 1.4826 * median(abs(value - centre) for value in values)


def alikeness(values: list[float]) -> float | None:
    """Correlation of neighbours; None where values do not differ."""
    mean = fmean(values)
    squares = sum((value - mean) ** 2 for value in values)
    pairs = pairwise(values)
    return sum((a - mean) * (b - mean) for a, b in pairs) / squares if squares > 0 else None


def scan(days: list[pl.DataFrame]) -> dict[tuple[Subject, str, int], Test]:
    """Every test of all days (`DEVIATIONS` each), by subject, `peers` or `past`, and sign."""
    tests: dict[tuple[Subject, str, int], Test] = defaultdict(Test)
    medians: dict[Subject, dict[int, float]] = defaultdict(dict)
    apart: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
    for day in days:
        if day.is_empty():
            continue
        today = int(day["hour"].min()) // 24  # type: ignore[arg-type]  # a number
        past = {s: [m for on, m in of.items() if on >= today - PAST_DAYS] for s, of in medians.items()}
        attempts = {row[:4]: row[5] for row in day.sort("hour").rows()}
        hours: dict[Subject, dict[int, float]] = defaultdict(dict)
        for signal, level, node, device, hour, _, deviation in day.rows():
            hours[signal, level, node, device][hour] = deviation
        for group in {subject[:2] for subject in hours}:
            mine = {subject: of for subject, of in hours.items() if subject[:2] == group}
            for against in ("peers", "past"):
                of_days = apart[*group, against]
                recent = [value for on, value in of_days.items() if on > today - PAST_DAYS]
                if _test_group(mine, against, tests, past, recent, attempts):
                    of_days[today] = recent[-1]
        for subject, of in hours.items():
            medians[subject][today] = median(of.values())
    return tests


def _test_group(  # noqa: PLR0917 - plain on purpose
    mine: dict[Subject, dict[int, float]],
    against: str,
    tests: dict[tuple[Subject, str, int], Test],
    past: dict[Subject, list[float]],
    recent: list[float],
    attempts: dict[Subject, int],
) -> bool:
    """One signal and level on one day; whether it was tested. How subjects differ on it is added to `recent`."""
    offset = {s: 0.0 if against == "peers" else median(past[s]) for s in mine
              if against == "peers" or len(past.get(s, [])) >= MIN_PAST_DAYS}  # fmt: skip
    if len(offset) < MIN_SUBJECTS:
        return False
    signal = BY_NAME[next(iter(mine))[0]]
    level = {s: median(mine[s].values()) - offset[s] for s in offset}
    recent.append(middle_of_scatter(list(level.values())))
    scatter = median(middle_of_scatter(list(mine[s].values())) for s in offset)
    known = [r for s in offset if (r := alikeness([mine[s][h] for h in sorted(mine[s])])) is not None]
    alike = min(0.9, max(0.0, median(known))) if known else 0.0
    sigma = max(scatter, 0.1 * signal.least) * math.sqrt((1 + alike) / (1 - alike))
    for subject, shift in offset.items():
        peers = [level[s] for s in level if attempts[s] == attempts[subject]]
        apart = max(*recent, middle_of_scatter(peers) if len(peers) >= MIN_OF_ATTEMPT else 0.0)
        immaterial = max(signal.least, SPREAD * apart)
        rate = 2 * max(immaterial - BIAS * apart, immaterial / 4) / sigma**2
        for sign in signal.signs:
            test = tests[subject, against, sign]
            for hour in sorted(mine[subject]):
                beyond = rate * (sign * (mine[subject][hour] - shift) - immaterial)
                test = _next(test, hour, max(-CAP, min(CAP, beyond)) - math.exp(-CAP))
            tests[subject, against, sign] = test
    return True


def _next(test: Test, hour: int, added: float) -> Test:
    start = hour if test.height <= 0 else test.start
    height = max(0.0, test.height + added)
    if height > test.top:
        return Test(test.hours + 1, height, start, height, start, hour + 1)
    return test._replace(hours=test.hours + 1, height=height, start=start)
