"""XOR chunks and frames of remote read for many series at once, with numpy: what a large server would send.

Every value is written out in 64 bits. That is a valid chunk, though a longer one than Prometheus would make, which
leaves out the bits that did not change; the reader does the same work for each sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ingest.prometheus.client.remote_read import _crc32c
from tests.support.telemetry.xor import series, sized, uvarint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt

    Bits = npt.NDArray[np.uint8]

_EVEN: Final = 0
"""The bit for: as long after the sample before as that one after its own."""

_WHOLE: Final = (1, 1, *(0,) * 11)
"""A value that changed: no zeros before what is written out, and 64 bits of it (which six bits write as 0)."""


def chunks(first_ms: int, step_ms: int, values: npt.NDArray[np.float64]) -> list[bytes]:
    """A chunk for each series (row): a value at `first_ms`, and every `step_ms` after it; three at least."""
    n_series, n_samples = values.shape
    words = np.ascontiguousarray(values, np.float64).view(np.uint64)
    head = n_samples.to_bytes(2, "big") + uvarint(first_ms << 1)
    later = np.empty((n_series, n_samples - 1, 1 + len(_WHOLE) + 64), np.uint8)
    later[:, :, 0] = _EVEN
    later[:, :, 1 : 1 + len(_WHOLE)] = _WHOLE
    later[:, :, 1 + len(_WHOLE) :] = _bits(words[:, 1:] ^ words[:, :-1])
    parts = (
        _same(head, n_series),
        _bits(words[:, :1]).reshape(n_series, 64),
        _same(uvarint(step_ms), n_series),
        later.reshape(n_series, -1)[:, 1:],
    )
    return [row.tobytes() for row in np.packbits(np.concatenate(parts, axis=1), axis=1)]


def _bits(words: npt.NDArray[np.uint64]) -> Bits:
    """The bits of 64-bit words, the highest first, along a new last axis."""
    return np.unpackbits(words.astype(">u8").view(np.uint8).reshape(*words.shape, 8), axis=-1)


def _same(data: bytes, n_series: int) -> Bits:
    return np.tile(np.unpackbits(np.frombuffer(data, np.uint8)), (n_series, 1))


def frames(of: Iterable[tuple[Mapping[str, str], list[bytes]]]) -> Iterator[bytes]:
    """A frame for each series. Checksums are right in the last one, where the reader looks at it, and 0 before."""
    last = b""
    for labels, parts in of:
        if last:
            yield uvarint(len(last)) + bytes(4) + last
        last = sized(1, series(dict(labels), *parts))
    if last:
        yield uvarint(len(last)) + _crc32c(last).to_bytes(4, "big") + last
