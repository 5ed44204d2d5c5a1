"""A line of a claim has as many digits as show why it is refuted, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.claims.printed import verdict_lines
from app.terminal.terminal import Terminal
from metrics.claims.claim import Claim, Measurement
from metrics.claims.verdict import judge, measure_mttf
from metrics.failures.size_law import caveat

CLAIM = Claim("g", "goodput_allocated", "99 %", "at least 0.99", "delivered", 0.99, "at_least", "ratio")


@pytest.mark.parametrize(
    ("claim", "value", "measured", "target"),
    [
        (replace(CLAIM, target=0.9900001), 0.99, "99.00000 %", "at least 99.00001 %"),
        (replace(CLAIM, target=0.9900001), 0.98, "98.0 %", "at least 99.0 %"),
        (CLAIM, 0.9900001, "99.0 %", "at least 99.0 %"),
        (CLAIM, 0.1 + 0.2, "30.0 %", "at least 99.0 %"),
        (replace(CLAIM, unit="d", target=3.66), 3.6597, "3.6597 d", "at least 3.66 d"),
        (replace(CLAIM, unit="s", target=90.0, direction="at_most"), 90.25, "90.25 s", "at most 90 s"),
        (replace(CLAIM, unit="s", target=90.0, direction="at_most"), 85.0, "1 min 25 s", "at most 1 min 30 s"),
    ],
)
def test_digits_show_what_misses_a_target(claim: Claim, value: float, measured: str, target: str) -> None:
    judged = judge(claim, Measurement(value=value, low=value, high=value))
    row = next(line for line in verdict_lines([judged], "c", Terminal()) if target in line)
    assert measured in row


@pytest.mark.parametrize(
    ("needed", "line"),
    [("cannot tell: no inventory", "g: cannot tell: no inventory"), ("telemetry", "g: to decide: telemetry")],
)
def test_undetermined_claim_has_what_would_decide_it(needed: str, line: str) -> None:
    judged = judge(CLAIM, Measurement(value=None, low=None, high=None, needed=needed))
    assert judged.verdict == "undetermined"
    assert line in list(verdict_lines([judged], "c", Terminal()))


def test_arithmetic_has_these_digits_too() -> None:
    judged = judge(replace(CLAIM, target=0.9900001), Measurement(value=0.99, low=0.99, high=0.99))
    text = " ".join(verdict_lines([judged], "c", Terminal(), explain=True))
    assert "at least 99.00001 %   (delivered)" in text
    assert "99.00000 %, from 99.00000 % to 99.00000 %" in text


@pytest.mark.parametrize(
    ("law", "noted"),
    [(caveat(-1.47, -2.08, -0.83), True), (caveat(1.02, 0.9, 1.14), False), (caveat(None, None, None), False)],
)
def test_contradicted_scaling_is_noted_below_the_verdicts(law: str, noted: bool) -> None:
    claim = replace(CLAIM, id="mttf", metric="mttf", unit="d", kind="capability", target=3.66, gpus=1024.0)
    judged = judge(claim, measure_mttf(12, 476.58, claim, law=law))
    note = "mttf: from jobs of all sizes; assumes 1/N, which these failures contradict. Jobs of about 1,024 GPUs alone"
    assert judged.verdict == "refuted"
    assert any(line.startswith(note) for line in verdict_lines([judged], "c", Terminal())) == noted
