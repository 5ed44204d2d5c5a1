"""The remark on an MFU above 100 %: it is no achievement, one of its inputs is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

INPUTS: Final = (
    "parameters and sizes of the model, sequence length, tokens of a step, number and kind of GPUs, data type (fp8?)"
)
"""Inputs of MFU besides time, any of which may be stated wrongly."""


def beyond_peak(values: Iterable[float | None]) -> tuple[str, ...]:
    """The remark on the largest of some MFUs, each over the peak of the fastest data type in use; none up to 100 %.

    >>> beyond_peak([0.41, None])
    ()
    >>> beyond_peak([0.41, 1.2])[0][:60]
    'An MFU of 120 % cannot be: one of its inputs is wrong. Check'
    """
    most = max((value for value in values if value is not None), default=0.0)
    if most <= 1:
        return ()
    return (f"An MFU of {100 * most:,.0f} % cannot be: one of its inputs is wrong. Check {INPUTS}.",)
