"""Lemon nodes once more, in plain Python with scipy's distributions: slow, and written from the definition alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

Node = dict[str, Any]


def p_above(counts: Sequence[float], exposure: Sequence[float]) -> list[float | None]:
    """The larger of the Poisson and the binomial tail of each."""
    result: list[float | None] = []
    for k, own in zip(counts, exposure, strict=True):
        others, elsewhere = sum(counts) - k, sum(exposure) - own
        if own <= 0 or elsewhere <= 0:
            result.append(None)
            continue
        by_rate = stats.poisson.sf(k - 1, others / elsewhere * own)
        given = stats.binom.sf(k - 1, sum(counts), own / sum(exposure))
        result.append(max(float(by_rate), float(given)) if k else 1.0)
    return result


def judged(
    exposure: pl.DataFrame,
    interruptions: pl.DataFrame,
    unblamed: pl.DataFrame,
    kinds: pl.DataFrame,
    out: dict[str, int],
) -> dict[str, Node]:
    """By node: failures, charged, p, q, verdict, families; all rows lie within 28 days."""
    rows = interruptions.filter(interruptions["class"] == "infrastructure").to_dicts()
    held: dict[tuple[str, int], set[str]] = {}
    for row in unblamed.to_dicts():
        held.setdefault((row["run_id"], row["attempt_no"]), set()).add(row["node"])
    nodes: dict[str, Node] = {}
    for row in exposure.sort("node").to_dicts():
        name = row["node"]
        failures = len({each["incident"] for each in rows if each["node"] == name})
        nodes[name] = {
            "failures": failures,
            "charged": failures + sum(1 / len(names) for names in held.values() if name in names),
            "kinds": len({(each["kind"], each["code"]) for each in kinds.to_dicts() if each["node"] == name}),
            "out": out.get(name, 0),
            "ran": row["ran_gpu_s"] / 86_400,
            "there": row["present_gpu_s"],
        }
    of = {name: [node[name] for node in nodes.values()] for name in ("failures", "kinds", "out", "ran", "there")}
    tests = zip(
        nodes.values(),
        p_above(of["failures"], of["ran"]),
        p_above(of["kinds"], of["there"]),
        p_above(of["out"], of["there"]),
        strict=True,
    )
    for node, p, p_ill, p_out in tests:
        node["p"] = p
        node["ill"] = node["kinds"] > 0 and p_ill is not None and p_ill < 0.05
        node["left"] = node["out"] > 0 and p_out is not None and p_out < 0.05
    _judge([node for node in nodes.values() if node["p"] is not None])
    for node in nodes.values():
        often = node.get("q", 1.0) < 0.05 and node["failures"] >= 3
        node["verdict"] = "none" if not often else "lemon" if node["ill"] or node["left"] else "suspect"
    return nodes


def _judge(reported: list[Node]) -> None:
    """Benjamini-Hochberg, from the largest p down."""
    least, n = 1.0, len(reported)
    for place, node in sorted(enumerate(sorted(reported, key=lambda each: each["p"]), 1), key=lambda each: -each[0]):
        least = min(least, node["p"] * n / place)
        node["q"] = least
