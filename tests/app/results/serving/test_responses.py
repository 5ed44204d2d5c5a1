"""What was sent is kept up to a size, with the texts by which it is found."""

from __future__ import annotations

from app.results.serving.responses import Responses


def test_a_body_larger_than_all_evicts_nothing() -> None:
    kept = Responses(most_bytes=1_000)
    kept.put("1", ("a",), b"small")
    kept.put("1", ("b",), b"x" * 2_000)
    kept.put("2", ("c",), b"x" * 2_000)
    assert kept.get("1", ("a",)) == b"small"
    assert kept.get("1", ("b",)) is None


def test_texts_of_keys_count_as_bodies_do() -> None:
    kept = Responses(most_bytes=1_000)
    kept.put("1", ("x" * 600,), b"first")
    kept.put("1", ("y" * 600,), b"second")
    assert kept.get("1", ("x" * 600,)) is None
    assert kept.get("1", ("y" * 600,)) == b"second"


def test_a_body_put_again_counts_once() -> None:
    kept = Responses(most_bytes=1_000)
    kept.put("1", ("a",), b"x" * 300)
    for _ in range(20):
        kept.put("1", ("b",), b"x" * 400)
    assert kept.get("1", ("a",)) == b"x" * 300
