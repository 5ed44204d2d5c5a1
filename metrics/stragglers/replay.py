"""Replay of a step: when operations start and end if each takes a given time once it can run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from metrics.statistics import FloatArray
    from metrics.stragglers.dependencies import Dependencies, TransferGroup
    from metrics.stragglers.operations import OperationTrace

CLOCK_TOLERANCE_S: Final = 1e-2
"""A transfer that ends earlier than this before all its sides have started is a fault of clocks; it took no time."""


def own_times(trace: OperationTrace, dependencies: Dependencies) -> FloatArray:
    """Seconds that each operation takes by itself, without waiting; shape (operations, steps, ranks).

    A computation takes its duration, a transfer the time since the last of its sides started.
    """
    own: FloatArray = trace.ended - trace.started
    for group in dependencies.groups:
        members = list(group.members)
        transfer = trace.ended[members] - _latest(trace.started[members], group)
        own[members] = np.where(transfer <= -CLOCK_TOLERANCE_S, 0.0, transfer)
    return own


def _latest(started: FloatArray, group: TransferGroup) -> FloatArray:
    axes = (0, 2) if group.across_ranks else 0
    latest: FloatArray = started.max(axis=axes, keepdims=True)
    return latest


def clocks_apart_s(trace: OperationTrace, dependencies: Dependencies) -> float:
    """By how many seconds clocks of workers disagree at least: some side of a transfer ends before another starts.

    The median over steps, so that single readings that are off do not count; 0 where nothing contradicts the clocks.
    """
    gaps = [0.0]
    for group in dependencies.groups:
        members = list(group.members)
        early = _latest(trace.started[members], group) - trace.ended[members]
        gaps.append(float(np.median(early.max(axis=0), axis=0).max()))
    return max(gaps)


def step_times_s(dependencies: Dependencies, own_s: FloatArray) -> FloatArray:
    """Seconds of each step in which every operation takes its own time, and nothing else delays it.

    Args:
        dependencies: of the operations.
        own_s: seconds, shape (operations, steps, ranks).
    """
    started, ended = np.zeros_like(own_s), np.empty_like(own_s)
    group_of = {at: group for group in dependencies.groups for at in group.members}
    missing = {group: len(group.members) for group in dependencies.groups}
    for at in dependencies.order:
        for first in dependencies.before[at]:
            np.maximum(started[at], ended[first], out=started[at])
        group = group_of.get(at)
        if group is None:
            np.add(started[at], own_s[at], out=ended[at])
            continue
        missing[group] -= 1
        if not missing[group]:
            members = list(group.members)
            ended[members] = _latest(started[members], group) + own_s[members]
    longest: FloatArray = ended.max(axis=(0, 2))
    return longest
