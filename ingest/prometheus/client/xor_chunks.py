"""Many XOR chunks of Prometheus decoded at once: every chunk is a lane, and all lanes take the same step together.

A chunk (encoding 1) is a count of samples (16 bits), then a stream of bits: the first time (zigzag varint,
milliseconds) and value (64 bits), the second time's delta (varint), from then on how much the delta changed, and of
every value but the first how its bits differ from those of the value before. Lanes have a cursor each, since lengths
depend on what is reported. Sources: Prometheus' `tsdb/docs/format/chunks.md` and `tsdb/docs/bstream.md`, and "Gorilla:
a fast, scalable, in-memory time series database" (Pelkonen et al., VLDB 2015).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Bits = npt.NDArray[np.uint64]
    Whole = npt.NDArray[np.int64]

STALE: Final = 0x7FF0000000000002
"""Bits of the value that marks the end of a series; any other NaN is a value."""

LANES: Final = 8192
"""Chunks that are decoded together: many enough to make each step worth its calls, few enough to stay in the cache."""

HEADER: Final = 2
"""Bytes of a chunk before its stream of bits: how many samples it has."""

LONGEST_VARINT: Final = 10
"""Bytes of 64 bits, seven in each."""

_PREFIX: Final = np.array([0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 3, 3, 4, 4], dtype=np.uint64)
"""By the first four bits of a change of delta: length of the prefix that encodes its length."""

_WIDTH: Final = np.array([0, 0, 0, 0, 0, 0, 0, 0, 14, 14, 14, 14, 17, 17, 20, 64], dtype=np.uint64)
"""By the same bits: length of the change, in bits."""


class DamagedChunkError(ValueError):
    """A chunk is damaged."""


class DecodedChunks(NamedTuple):
    """Samples chunk by chunk: the count of each, epoch milliseconds, and values (as `bits`)."""

    counts: Whole
    times: Whole
    bits: Bits

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """The values as numbers."""
        return self.bits.view(np.float64)


def decode(data: Bytes, begin: Whole, length: Whole) -> DecodedChunks:
    """All samples of the chunks that lie in `data` from `begin`, `length` bytes each, in their order.

    Raises:
        DamagedChunkError: A chunk ends before its samples do, or has an impossible value.
    """
    if np.any(length < HEADER) or np.any(begin < 0) or np.any(begin + length > data.size):
        raise DamagedChunkError("a chunk that is too short for its count of samples")
    counts = data[begin].astype(np.int64) << 8 | data[begin + 1]
    if np.any(counts > 2 + 4 * (length - HEADER)):
        raise DamagedChunkError("a chunk that is too short for its samples")  # even at two bits for each
    first = np.cumsum(counts) - counts
    times, bits = np.empty(counts.sum(), np.int64), np.empty(counts.sum(), np.uint64)
    padded = np.zeros((data.size // 8 + 3) * 8, np.uint8)
    padded[: data.size] = data
    words = padded.view(">u8").astype(np.uint64)
    order = np.argsort(-counts, kind="stable")  # those that end first are last: the first ones remain
    for low in range(0, order.size, LANES):
        some = order[low : low + LANES]
        _ChunkLanes(padded, words, begin[some], length[some]).run(counts[some], first[some], times, bits)
    return DecodedChunks(counts, times, bits)


def uvarints(data: Bytes, at: Whole) -> tuple[Bits, Whole]:
    """The unsigned varints that begin at these bytes, and where each ends. `data` goes on for ten bytes behind them.

    Raises:
        DamagedChunkError: one has more than 64 bits.
    """
    numbers, at = np.zeros(at.size, np.uint64), at.copy()
    more = np.arange(at.size)
    for shift in range(0, 7 * LONGEST_VARINT, 7):
        byte = data.take(at[more], mode="clip").astype(np.uint64)
        if shift == 63 and np.any(byte > 1):
            break
        numbers[more] |= (byte & 127) << shift
        at[more] += 1
        more = more[byte > 127]
        if not more.size:
            return numbers, at
    raise DamagedChunkError("a number of more than 64 bits")


class _ChunkLanes:
    """Chunks decoded together, those with most samples first, with the position in each."""

    def __init__(self, data: Bytes, words: Bits, begin: Whole, length: Whole) -> None:
        self._data, self._words = data, words
        self._at = (begin + HEADER << 3).view(np.uint64)  # the next bit
        self._end = (begin + length << 3).view(np.uint64)
        self._time, self._delta = np.zeros(begin.size, np.int64), np.zeros(begin.size, np.int64)
        self._value = np.zeros(begin.size, np.uint64)
        # Which bits of a value differed last: so many, and so many below them that do not.
        self._width, self._below = np.full(begin.size, 64, np.uint64), np.zeros(begin.size, np.uint64)

    def run(self, counts: Whole, first: Whole, times: Whole, bits: Bits) -> None:
        """Decode all samples; sample i of a lane goes to `first` + i."""
        to = first.copy()
        left = counts.size - np.searchsorted(counts[::-1], np.arange(counts[0], dtype=np.int64), side="right")
        for step, lanes in enumerate(left.tolist()):
            if step == 0:
                self._begin(lanes)
            elif step == 1:
                self._second(lanes)
            else:
                self._differ(lanes, self._go_on(lanes))
            where = to[:lanes]
            times[where] = self._time[:lanes]
            bits[where] = self._value[:lanes]
            where += 1
        if np.any(self._at > self._end):
            raise DamagedChunkError("a chunk that ends before its last sample")

    def _begin(self, lanes: int) -> None:
        """The first sample, whole."""
        encoded = self._varint(lanes)
        self._time[:lanes] = (encoded >> 1).view(np.int64) ^ -(encoded & 1).view(np.int64)
        self._value[:lanes] = self._peek(self._at[:lanes])
        self._at[:lanes] += 64

    def _second(self, lanes: int) -> None:
        """The second sample: the first delta, and how the value differs."""
        self._delta[:lanes] = self._varint(lanes).view(np.int64)
        self._time[:lanes] += self._delta[:lanes]
        self._differ(lanes, self._peek(self._at[:lanes]))

    def _varint(self, lanes: int) -> Bits:
        numbers, at = uvarints(self._data, (self._at[:lanes] >> 3).view(np.int64))
        self._at[:lanes] = at.view(np.uint64) << 3
        return numbers

    def _peek(self, at: Bits) -> Bits:
        """The 64 bits from each position on."""
        word, shift = (at >> 6).view(np.int64), at & 63
        high: Bits = self._words.take(word, mode="clip")
        word += 1
        low: Bits = self._words.take(word, mode="clip")
        high <<= shift
        low >>= 1
        low >>= 63 - shift
        high |= low
        return high

    def _go_on(self, lanes: int) -> Bits:
        """Read the change of the delta; returns the following bits, at least 63."""
        at = self._at[:lanes]
        ahead = self._peek(at)
        changed = np.flatnonzero(ahead.view(np.int64) < 0)  # the first bit
        at += 1
        ahead_of_value = (ahead << 1).view(np.uint64)
        if changed.size:
            kind = (ahead[changed] >> 60).view(np.int64)
            width, from_ = _WIDTH[kind], at[changed] - 1 + _PREFIX[kind]
            bits = self._peek(from_) >> (64 - width)
            half = np.uint64(1) << (width - 1)
            bits -= (bits > half) * (half << 1)  # of 64 bits none is too many: twice their half is 0
            self._delta[changed] += bits.view(np.int64)
            at[changed] = from_ + width
            ahead_of_value[changed] = self._peek(at[changed])
        self._time[:lanes] += self._delta[:lanes]
        return ahead_of_value

    def _differ(self, lanes: int, ahead: Bits) -> None:
        """Read the value's difference from the one before; `ahead` are the next bits, at least 13."""
        changed = np.flatnonzero(ahead.view(np.int64) < 0)  # the first bit
        self._at[:lanes] += 1
        if not changed.size:
            return
        ahead, at = ahead.take(changed), self._at.take(changed)  # which is quicker than [changed]
        at += 1
        elsewhere = np.flatnonzero(ahead & (1 << 62) != 0)
        if elsewhere.size:
            head, who = ahead.take(elsewhere), changed.take(elsewhere)
            above, width = (head >> 57 & 31).view(np.uint64), (head >> 51 & 63).view(np.uint64)
            width[width == 0] = 64
            if np.any(above + width > 64):
                raise DamagedChunkError("a value of more than 64 bits")
            self._width[who] = width
            self._below[who] = 64 - above - width
            at[elsewhere] += 11
        width, bits = self._width.take(changed), self._peek(at)
        bits >>= 64 - width
        bits <<= self._below.take(changed)
        bits ^= self._value.take(changed)
        self._value[changed] = bits
        at += width
        self._at[changed] = at
