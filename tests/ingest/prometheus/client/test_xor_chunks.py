"""Chunks decoded together are what a plain decoder makes of each of them, bit by bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.prometheus.client.xor_chunks import LANES, STALE, DamagedChunkError, decode
from tests.support.telemetry.xor import Sample, bits_of, read_chunk, write_chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

T = 1_795_248_000_000
T0 = 1_793_530_800_000
REAL = bytes.fromhex(
    "00088"
    "09ea1ecb2683fdcf27fe4bcad9b9875317dfee793ff25e56cdb0a30161604b016180fac1f7f1bf21e44003acf7c1987e831cfb4a2333d80e03e"
    "b0ff010666666666666c"
)
NAN, INF = float("nan"), float("inf")


def decoded(*chunks: bytes, between: bytes = b"") -> list[list[Sample]]:
    """Samples of chunks that lie behind one another, with something `between` them."""
    begin, data = [], b""
    for chunk in chunks:
        data += between
        begin.append(len(data))
        data += chunk
    sizes = np.array([len(chunk) for chunk in chunks], np.int64)
    counts, times, bits = decode(np.frombuffer(data, np.uint8), np.array(begin, np.int64), sizes)
    samples = list(zip(times.tolist(), bits.tolist(), strict=True))
    ends = np.cumsum(counts).tolist()
    return [samples[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)]


VALUES = st.one_of(
    st.floats().map(bits_of),
    st.sampled_from([0.0, -0.0, 1.0, 0.1, NAN, INF, -INF, 5e-324, 97.0, 2.0**53 + 2]).map(bits_of),
    st.just(STALE),
    st.integers(0, 2**64 - 1),
)
DELTAS = st.one_of(
    st.sampled_from([15_000, 15_000, 15_000, 14_999, 15_001, 1]),
    *(st.integers(-(1 << width), 1 << width) for width in (13, 14, 16, 17, 19, 20, 40)),
)


@st.composite
def runs(draw: st.DrawFn) -> list[Sample]:
    """Samples of a chunk: regular or not, values that stay, change a little, or anything."""
    time = draw(st.one_of(st.just(T), st.integers(-(2**62), 2**62)))
    result: list[Sample] = []
    for delta, value, stays in draw(st.lists(st.tuples(DELTAS, VALUES, st.booleans()), max_size=40)):
        result.append((time, result[-1][1] if result and stays else value))
        time += delta
    return result


@given(st.lists(runs(), min_size=1, max_size=12), st.binary(max_size=9))
def test_chunks_of_any_samples_round_trip_with_anything_between(chunks: list[list[Sample]], between: bytes) -> None:
    written = [write_chunk(samples) for samples in chunks]
    assert [read_chunk(chunk) for chunk in written] == chunks
    assert decoded(*written, between=between) == chunks


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4), st.integers(0, 30))
@settings(max_examples=300)
def test_random_bytes_decode_as_by_the_plain_decoder_or_fail(tails: list[bytes], count: int) -> None:
    chunks = [count.to_bytes(2, "big") + tail for tail in tails]
    try:
        reported = [read_chunk(chunk) for chunk in chunks]
    except ValueError:
        with pytest.raises(DamagedChunkError):
            decoded(*chunks)
    else:
        assert decoded(*chunks) == reported


@given(runs().filter(bool), st.data())
def test_a_chunk_that_is_cut_is_refused(samples: list[Sample], data: st.DataObject) -> None:
    chunk = write_chunk(samples)
    cut = data.draw(st.integers(0, len(chunk) - 1))
    with pytest.raises(DamagedChunkError):
        decoded(chunk, chunk[:cut], chunk)


@pytest.mark.slow
def test_chunk_with_a_flipped_bit_decodes_as_by_plain_decoder() -> None:
    chunk = write_chunk([(T + 15_000 * n, bits_of(n % 7 / 10)) for n in range(30)])
    for bit in range(8 * len(chunk)):
        flipped = bytearray(chunk)
        flipped[bit // 8] ^= 128 >> bit % 8
        try:
            reported = read_chunk(bytes(flipped))
        except ValueError:
            with pytest.raises(DamagedChunkError):
                decoded(bytes(flipped))
        else:
            assert decoded(bytes(flipped)) == [reported], bit


@pytest.mark.parametrize("count", [0, 1, 2, 3, 120])
def test_chunks_of_one_size_are_what_was_written(count: int) -> None:
    samples = [(T + 15_000 * n, bits_of(n / 3)) for n in range(count)]
    assert decoded(*[write_chunk(samples)] * 3) == [samples] * 3


def test_more_chunks_than_one_batch_stay_in_order() -> None:
    chunks = [[(T + number, bits_of(float(number)))] * (number % 3) for number in range(2 * LANES + 5)]
    assert decoded(*[write_chunk(samples) for samples in chunks]) == chunks


def test_stale_marker_differs_from_other_nans() -> None:
    counts, times, bits = decode(*_one([(T, bits_of(1.0)), (T + 1, STALE), (T + 2, bits_of(NAN))]))
    assert (counts.tolist(), times.tolist()) == ([3], [T, T + 1, T + 2])
    assert (bits == STALE).tolist() == [False, True, False]
    assert np.isnan(decode(*_one([(T, bits_of(NAN))])).values).all()


def test_chunk_too_short_for_its_sample_count_is_refused_at_once() -> None:
    with pytest.raises(DamagedChunkError, match="too short for its samples"):
        decoded(b"\xff\xff" + bytes(100))


def test_a_chunk_of_a_real_prometheus_is_what_it_was_given() -> None:
    """As 2.42 sent it; NaN is Go's."""
    given = [0.452301, 0.452301, 0.0, 97.0, -0.0, 1e300, 0.1]
    samples = [(T0 + 15_000 * n + 250 * (n == 5), bits_of(value)) for n, value in enumerate(given)]
    samples.append((T0 + 105_000, 0x7FF8000000000001))
    assert decoded(REAL) == [samples]
    assert write_chunk(samples) == REAL


def _one(samples: Sequence[Sample]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chunk = write_chunk(samples)
    return np.frombuffer(chunk, np.uint8), np.array([0]), np.array([len(chunk)])
