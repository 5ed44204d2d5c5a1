"""Logged values to steps: which names are the loss, the time of a step and its tokens, and when each step began.

W&B and TensorBoard record values under names that the training code chose, at the time at which they were logged: the
end of a step. Names that the common frameworks use are known; others are stated (`--set loss_key=nll`).

Where only every n-th step is logged, the steps between two values are n equal ones: their number and their time are
known, how they differ is not. Where their length is logged, they end at the logged time, and what is left of the time
since the value before is no step. Where it is not, they fill that time, unless it is far longer than usual: then they
take the usual time, and something else happened in the rest.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "step_key": (
        "train/global_step",
        "trainer/global_step",
        "global_step",
        "train/step",
        "training/step",
        "train_step",
        "iteration",
        "iter",
        "training/global_step",
        "step",
    ),
    "loss_key": (
        "train/loss",
        "train_loss",
        "training/loss",
        "train/loss_step",
        "train_loss_step",
        "loss/train",
        "training_loss",
        "lm loss",
        "lm-loss-training/lm loss",
        "reduced_train_loss",
        "loss_metrics/global_avg_loss",
        "train/gpt_loss",
        "train/policy_loss",
        "loss",
    ),
    "step_time_key": (
        "train/step_time",
        "step_time",
        "step_time_s",
        "train_step_time",
        "perf/step_time",
        "train_step_timing in s",
        "iteration-time",
        "iteration_time",
        "time_metrics/end_to_end(s)",
        "timing_s/step",
        "time_per_step",
    ),
    "step_time_ms_key": ("step_time_ms", "train/step_time_ms", "perf/step_time_ms"),
    "tokens_key": ("tokens_per_step", "train/tokens_per_step", "batch_tokens", "train/batch_tokens"),
    "total_tokens_key": (
        "train/num_input_tokens_seen",
        "num_input_tokens_seen",
        "n_tokens_seen",
        "tokens_seen",
        "train/tokens_seen",
        "consumed_tokens",
        "consumed_train_tokens",
        "total_tokens",
        "train/total_tokens",
    ),
}
"""Names by meaning, small letters, the first one that is logged counts. A step time is in seconds; tokens are of a
step, total tokens of all steps so far."""

MICRO_BATCH_TIME: Final = "iter_time"
"""LitGPT logs this of each micro-batch, with `step`, the steps that are done; its `iter` counts micro-batches."""

_COUNTS_MICRO_BATCHES: Final = {"iter", "trainer/global_step"}

KEYS: Final = tuple(NAMES)
"""Names of series can be stated by these: `--set loss_key=nll`."""

MOST_BETWEEN: Final = 10_000
"""Steps between two logged values; if there are more, the number is not one of steps."""

USUAL: Final = 50
"""Number of intervals that define the usual length of one."""

FEWEST_KNOWN: Final = 3
"""Intervals from which on it is known how fast steps are."""

AHEAD: Final = 64
"""Points at the beginning of a log in which it is searched before."""

TOO_FAST: Final = 1000.0
"""Steps that would be so many times faster than the fastest known one were not executed: the number counts others."""

PAUSE_FACTOR: Final = 10.0
PAUSE_S: Final = 300.0
"""An interval of more than ten usual ones, and more than five minutes, holds a pause."""


@dataclass
class Point:
    """What was logged of a step, at the time `t` (seconds since 1970)."""

    step: int
    t: float
    loss: float | None = None
    step_time: float | None = None
    tokens: float | None = None
    total_tokens: float | None = None
    between: bool = True
    """Whether the steps since the point before were executed; else the numbers have gaps by themselves."""
    is_micro_batch: bool = False
    """Whether it is of a micro-batch: the first one that has the number of a step ended that."""

    def complete(self, row: Point) -> bool:
        """Take the values of the next row, if that has others of the same step; return whether they were taken."""
        if (self.step, self.between) != (row.step, row.between) or row.is_micro_batch:
            return False
        ours, others = self.values(), row.values()
        if not ours or not others or ours.keys() & others.keys():
            return False
        for name, value in others.items():
            setattr(self, name, value)
        return True

    def values(self) -> dict[str, float]:
        """The known values by their names."""
        logged = {
            "loss": self.loss,
            "step_time": self.step_time,
            "tokens": self.tokens,
            "total_tokens": self.total_tokens,
        }
        return {name: value for name, value in logged.items() if value is not None}


def joined(points: Iterable[Point]) -> Iterator[Point]:
    """Points of which those that log other values of one step, row after row, are one, at the time of the first."""
    last = None
    for each in points:
        if last is not None and last.complete(each):
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last


class Names:
    """The meanings of logged names.

    Args:
        stated: names by meaning (`KEYS`), as a person stated them; they go before all others.
    """

    def __init__(self, stated: Mapping[str, Any]) -> None:
        self._stated = {key: str(stated[key]) for key in KEYS if stated.get(key)}
        self._rank: dict[str, tuple[str, int] | None] = {}

    def meaning(self, name: str) -> str | None:
        """The meaning of a name; None where it has none that is known."""
        found = self._of(name)
        return None if found is None else found[0]

    def unknown(self) -> list[str]:
        """Names that were logged and have no known meaning; W&B's own are not among them."""
        return sorted(name for name, place in self._rank.items() if place is None and not name.startswith("_"))

    def _of(self, name: str) -> tuple[str, int] | None:
        if name not in self._rank:
            self._rank[name] = self._search(name)
        return self._rank[name]

    def _search(self, name: str) -> tuple[str, int] | None:
        stated = next((key for key, chosen in self._stated.items() if chosen == name), None)
        if stated is not None:
            return stated, -1
        small = name.strip().lower()
        both = (small, small.replace(".", "/"))  # W&B joins the keys of nested values by dots
        places = ((key, names.index(each)) for each in both for key, names in NAMES.items() if each in names)
        return next((place for place in places if place[0] not in self._stated), None)

    def chosen(self, values: Mapping[str, Any]) -> dict[str, float]:
        """The finite number of each meaning among values by name; of several names the first one known."""
        best: dict[str, tuple[int, float]] = {}
        in_parts = {MICRO_BATCH_TIME, "step"} <= values.keys()
        for name, value in values.items():
            place, number = self._of(name), as_number(value)
            if in_parts and name in _COUNTS_MICRO_BATCHES and place is not None and place[1] >= 0:
                continue
            if place is None or (number is None and place[0] != "loss_key"):
                continue
            key, rank = place
            if key not in best or rank < best[key][0]:
                best[key] = rank, math.nan if number is None else number
        chosen = {key: number for key, (_, number) in best.items()}
        return chosen | {MICRO_BATCH_TIME: 1.0} if in_parts and chosen else chosen


def as_number(value: object) -> float | None:
    """A finite number; None for anything else."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def point(chosen: Mapping[str, float], step: int | None, t: float) -> Point | None:
    """The values that `Names.chosen` returned, as a point; None if no value is of a training step.

    Args:
        chosen: numbers by meaning.
        step: the number of the entry in its log, where nothing among the values is the number of the step.
        t: when it was logged.
    """
    counted = chosen.get("step_key")
    number = step if counted is None else round(counted)
    is_micro_batch = MICRO_BATCH_TIME in chosen
    if number is None or number < is_micro_batch or not chosen.keys() - {"step_key", MICRO_BATCH_TIME}:
        return None
    step_time = chosen.get("step_time_key", chosen.get("step_time_ms_key", math.nan) / 1000)
    return Point(
        number,
        t,
        loss=_or_none(chosen.get("loss_key")),
        step_time=step_time if step_time > 0 else None,
        tokens=chosen.get("tokens_key"),
        total_tokens=chosen.get("total_tokens_key"),
        between=counted is not None,
        is_micro_batch=is_micro_batch,
    )


def _or_none(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


@dataclass
class ProcessSteps:
    """Points of one process, in the order of its log, as `step` lines of a run log.

    Attributes:
        tokens: of each step, where no name records them.
        first: when the first step began, in seconds since 1970.
        n_repeated: points whose step another writer, or another row, had logged.
    """

    tokens: float | None = None
    first: float | None = None
    n_repeated: int = 0
    _before: Point | None = None
    _doubts: bool = False
    _logged: dict[int, float] = field(default_factory=dict)
    _intervals: deque[float] = field(default_factory=lambda: deque(maxlen=USUAL))
    _expected: float = 0.0

    def look_ahead(self, points: Iterable[Point]) -> None:
        """Find how fast steps are in the first points: several writers may log the first steps, too."""
        firsts: dict[int, float] = {}
        for each in points:
            firsts[each.step] = min(firsts.get(each.step, each.t), each.t)
        pairs = itertools.pairwise(sorted(firsts.items()))
        lengths = [(t - before) / (step - last) for (last, before), (step, t) in pairs if t > before]
        self._expected = min(lengths) if len(lengths) >= FEWEST_KNOWN else 0.0

    def of(self, point: Point) -> Iterator[bytes]:
        """The steps since the point before, this one's last.

        None if it is of a micro-batch of the next step, or another writer, or another row, has logged the step already.
        """
        if point.is_micro_batch and self._before is not None and self._before.step == point.step:
            return
        if self._is_repeated(point):
            self.n_repeated += 1
            return
        before, self._before = self._before, point
        follows = before is not None and before.step < point.step and before.t <= point.t
        self._note(point, follows=follows)
        if before is None or not follows:
            yield from self._lines(point, 1, point.step_time, None, self._tokens(point, None, 1))
            return
        gap = point.t - before.t
        n = point.step - before.step if point.between and self._is_plausible(point.step - before.step, gap) else 1
        yield from self._lines(point, n, self._length(point, gap, n), before.t, self._tokens(point, before, n))

    def _fastest(self) -> float:
        """The fastest of the usual steps; 0 while it is not known."""
        return min(self._intervals) if len(self._intervals) >= FEWEST_KNOWN else self._expected

    def _is_plausible(self, n: int, gap: float) -> bool:
        """Whether `n` steps may have been executed in `gap` seconds; steps that go on as fast as before may."""
        self._doubts = not self._doubts and gap / n * TOO_FAST < self._fastest()
        return n <= MOST_BETWEEN and not self._doubts

    def _is_repeated(self, point: Point) -> bool:
        """Whether its step was logged less than half a step ago: one that is executed again ends a step later."""
        logged = self._logged.get(point.step)
        return logged is not None and abs(point.t - logged) < self._fastest() / 2

    def _note(self, point: Point, *, follows: bool) -> None:
        """Keep when a step was logged; where the number goes back, those from there on are executed again."""
        if not follows:
            self._doubts = False
            self._logged.clear()
        self._logged[point.step] = point.t
        if len(self._logged) > USUAL:
            del self._logged[next(iter(self._logged))]

    def _length(self, point: Point, gap: float, n: int) -> float | None:
        """Seconds of each of the `n` steps of an interval."""
        each = gap / n
        usual = median(self._intervals) if self._intervals else None
        paused = usual is not None and each > PAUSE_FACTOR * usual and gap > PAUSE_S
        if not paused:
            self._intervals.append(each)
        if point.step_time is not None:
            return min(point.step_time, each)
        return usual if paused else each

    def _tokens(self, point: Point, before: Point | None, n: int) -> float | None:
        if point.tokens is not None:
            return point.tokens
        if before is not None and point.total_tokens is not None and before.total_tokens is not None:
            rise = point.total_tokens - before.total_tokens
            return rise / n if rise > 0 else None
        return self.tokens

    def _lines(
        self, point: Point, n: int, length: float | None, since: float | None, tokens: float | None
    ) -> Iterator[bytes]:
        took = length or 0.0
        begin = point.t - took * n if since is None else max(since, point.t - took * n)
        self.first = begin if self.first is None else min(self.first, begin)
        for at in range(n):
            line = {
                "type": "step",
                "step": point.step - n + 1 + at,
                "t": round(begin + took * at, 6),
                "duration_s": None if length is None else round(length, 6),
                "tokens": tokens,
                "loss": point.loss if at == n - 1 else None,
            }
            yield encode(line)


def rejected_names(names: Names) -> bytes:
    """The line of a run log that rejects a log of whose values none is known to be one of a training step."""
    reason = "no value in it is known to be one of a training step; name it: --set loss_key=NAME"
    return encode({"type": "rejected", "reason": reason, "raw": ", ".join(names.unknown())})


def tokens_of_step(facts: Mapping[str, Any]) -> float | None:
    """Tokens of a step by the facts of a `run` line: samples by their length; None where one is unknown.

    >>> tokens_of_step({"global_batch": 16, "seq_len": 128})
    2048.0
    """
    batch, length = as_number(facts.get("global_batch")), as_number(facts.get("seq_len"))
    return batch * length if batch and length else None


def encode(line: Mapping[str, Any]) -> bytes:
    """A line of a run log; unknown values are left out."""
    return msgspec.json.encode({name: value for name, value in line.items() if value is not None}) + b"\n"
