"""What telemetry calls productive and may have been lost: cases by hand, and the laws it must keep."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.ledger.telemetry_evidence import active_time
from tests.metrics.ledger.test_telemetry_evidence import EPOCH, MINUTE, at, ended, held, minutes, samples, seen, worlds
from tests.metrics.tables import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl


def minute_by_minute(active: Sequence[tuple[float, float]], until: float, gpus: int = 2) -> pl.DataFrame:
    """Samples of the GPUs of n1, all of them active in the given stretches and idle between them."""
    edges = sorted({0.0, until, *(e for stretch in active for e in stretch)})
    return samples(
        *(
            ("n1", gpu, a, b, float(any(low <= a and b <= high for low, high in active)))
            for gpu in range(gpus)
            for a, b in pairwise(edges)
        )
    )


@pytest.mark.parametrize("state", ["NODE_FAIL", "FAILED", "PREEMPTED", "TIMEOUT", "RUNNING", None])
def test_incomplete_attempts_last_productive_hour_is_provisional(state: str | None) -> None:
    activity = minute_by_minute([(0, 100), (150, 190)], 300)
    result = seen(held(("1", "n1", 0, 300, 2)), activity, state=state)
    assert result == {
        ("1", "productive", None): 2 * 80,
        ("1", "productive", "provisional"): 2 * (20 + 40),
        ("1", "stalled", "hang"): 2 * 50,
        ("1", "teardown", None): 2 * 110,
    }


def test_short_incomplete_attempt_is_all_provisional() -> None:
    result = seen(held(("1", "n1", 0, 30, 2)), minute_by_minute([(10, 30)], 30), state="FAILED")
    assert result == {("1", "startup", None): 20, ("1", "productive", "provisional"): 40}


def test_hourly_shares_are_provisional_as_in_the_last_hour() -> None:
    """Three hours, of the last half: the 30 minutes there and half of the hour before."""
    activity = samples(
        *(("n1", gpu, 60 * h, 60 * h + 60, share) for gpu in (0, 1) for h, share in enumerate((0.8, 0.8, 0.5)))
    )
    result = seen(held(("1", "n1", 0, 180, 2)), activity, state="NODE_FAIL")
    assert result["1", "productive", "provisional"] == pytest.approx(2 * 60)
    assert result["1", "productive", None] == pytest.approx(2 * (48 + 18))


def test_last_productive_hour_is_provisional_on_shared_nodes_too() -> None:
    attempts = held(("1", "n1", 0, 200, 1), ("2", "n1", 0, 200, 1))
    result = seen(attempts, minute_by_minute([(0, 200)], 200), state="FAILED")
    for job in ("1", "2"):
        assert result[job, "productive", "provisional"] == 60
        assert result[job, "productive", None] == 140


def test_an_attempt_on_several_nodes_has_one_last_hour() -> None:
    """On n2 telemetry ends 100 minutes before the attempt does: that hour is not n2's last hour with samples."""
    activity = samples(*((node, gpu, 0, until, 1.0) for node, until in (("n1", 300), ("n2", 200)) for gpu in (0, 1)))
    result = seen(held(("1", "n1", 0, 300, 2), ("1", "n2", 0, 300, 2)), activity, state="NODE_FAIL")
    assert result == {("1", "productive", None): 2 * 240 + 2 * 200, ("1", "productive", "provisional"): 2 * 60}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(worlds(), st.integers(0, 20), st.booleans())
def test_marking_what_is_provisional_moves_no_gpu_time(
    world: dict[tuple[str, int], list[int | None]], last: int, shared: bool
) -> None:
    """Categories stay as they are, and no more than the last productive time is marked."""
    attempts = held(("1", "n1", 0, 12, 1 if shared else 2), ("1", "n2", 0, 12, 2))
    whole = rows(frames.COVERAGE, {"cluster": "c", "started_at": at(0), "ended_at": at(12)})
    there = rows(
        frames.INVENTORY,
        *(
            {"cluster": "c", "node": n, "started_at": at(0), "ended_at": at(12), "milli_gpus": 2000}
            for n in ("n1", "n2")
        ),
    )

    def marked(state: str) -> tuple[Counter[tuple[str, int, str]], set[int]]:
        total: Counter[tuple[str, int, str]] = Counter()
        provisional = set()
        result = active_time(
            minutes(world), attempts, there, whole, ended(attempts, state), provisional_s=last * MINUTE
        )
        for row in result.iter_rows(named=True):
            first, stop = (round((row[name] - EPOCH).total_seconds() / MINUTE) for name in ("started_at", "ended_at"))
            for minute in range(first, stop):
                total[row["node"], minute, row["category"]] += row["milli_gpus"]
                if row["cause"] == "provisional":
                    provisional.add(minute)
        return total, provisional

    done, none = marked("COMPLETED")
    broken, provisional = marked("NODE_FAIL")
    assert done == broken
    assert not none
    productive = sorted({minute for _, minute, category in done if category == "productive"})
    if not shared:  # all of its time, while any node is
        assert provisional == set(productive[max(0, len(productive) - last) :])
    assert provisional <= set(productive)
