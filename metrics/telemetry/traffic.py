"""Traffic through filesystems and networks by owner: rates of nodes made amounts, side by side.

An amount is a rate x the time that its samples cover: the observed part, and no estimate of the rest. On nodes
that several share its owner is unknown: that is in columns of its own, for each of them in full.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - dataclasses need it at run time
from dataclasses import dataclass, field

import polars as pl

from metrics.metric import Metric
from metrics.unknown import known_sum


@dataclass(frozen=True)
class Traffic:
    """One kind of traffic, by rates of nodes.

    Attributes:
        amounts: metric (a rate) -> name of its amount.
        means: name -> amounts whose ratio it is: such as response time by operations.
        main: the amount whose observed time is the time that samples cover, where a device has it.
        whole: the same metrics as counted for whole nodes by other exporters -> metric of `amounts`.
        whole_name: what their device is called.
    """

    amounts: Mapping[str, str]
    main: str
    means: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    whole: Mapping[str, str] = field(default_factory=dict)
    whole_name: str = ""

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics that are read."""
        return (*self.amounts, *self.whole)


FILESYSTEMS = Traffic(
    amounts={
        "fs_operations_per_s": "operations",
        "fs_read_operations_per_s": "read_operations",
        "fs_write_operations_per_s": "write_operations",
        "fs_metadata_operations_per_s": "metadata_operations",
        "fs_read_bytes_per_s": "read_bytes",
        "fs_written_bytes_per_s": "written_bytes",
        "fs_response_s_per_s": "response_s",
        "fs_queue_s_per_s": "queue_s",
    },
    main="operations",
    means={"mean_response_s": ("response_s", "operations"), "mean_queue_s": ("queue_s", "operations")},
    whole={
        "nfs_operations_per_s": "fs_operations_per_s",
        "nfs_read_operations_per_s": "fs_read_operations_per_s",
        "nfs_write_operations_per_s": "fs_write_operations_per_s",
        "nfs_metadata_operations_per_s": "fs_metadata_operations_per_s",
    },
    whole_name="(NFS, all mounts)",
)

NETWORKS = Traffic(
    amounts={"ib_received_bytes_per_s": "received_bytes", "ib_transmitted_bytes_per_s": "transmitted_bytes"},
    main="received_bytes",
)


def traffic(sums: pl.DataFrame, of: Traffic, by: list[str]) -> pl.DataFrame:
    """Amounts by subject and device, the greatest first.

    Args:
        sums: the columns of `by`, `metric`, `device`, `n_nodes`, `observed_s`, `value_s`, and of nodes that several
            shared `shared_s` and `shared_value_s`; maybe more values x seconds, such as `outside_value_s`.
        of: which metrics, and what they are called.
        by: columns that name a subject; none for devices alone.

    Returns:
        `by`, `device`, `n_nodes`, `observed_s` (node-seconds that the main amount covers; of a device without it, the
        amount that is known the longest), each amount (null where unknown) and `AMOUNT_per_s` (per node), `shared_s`,
        `shared_AMOUNT`, and the means.
    """
    known = sums.filter(pl.col("metric").is_in(of.metrics)).with_columns(
        pl.when(pl.col("metric").is_in(list(of.whole))).then(pl.lit(of.whole_name)).otherwise("device").alias("device"),
        pl.col("metric").replace(dict(of.whole)).replace(dict(of.amounts)).alias("amount"),
    )
    key = [*by, "device"]
    mine = pl.col("amount")
    parts = [name for name in sums.columns if name.endswith("_value_s")]
    rows = known.group_by(key).agg(
        pl.col("n_nodes").max(),
        *(_covered(name, of) for name in ("observed_s", "shared_s")),
        *(_sum("value_s", mine == name).alias(name) for name in of.amounts.values()),
        *(_sum("observed_s", mine == name).alias(f"{name}_seconds") for name in of.amounts.values()),
        *(
            _sum(part, mine == name).alias(f"{part.removesuffix('_value_s')}_{name}")
            for part in parts
            for name in of.amounts.values()
        ),
    )
    rates = [_ratio(pl.col(name), pl.col(f"{name}_seconds")).alias(f"{name}_per_s") for name in of.amounts.values()]
    rows = rows.with_columns(rates)
    means = [
        _ratio(pl.col(f"{above}_per_s"), pl.col(f"{below}_per_s")).alias(name)
        for name, (above, below) in of.means.items()
    ]
    return (
        rows.with_columns(means)
        .drop(f"{name}_seconds" for name in of.amounts.values())
        .sort(pl.col(of.main).fill_null(0.0), *key, descending=[True, *(False for _ in key)])
    )


def _covered(name: str, of: Traffic) -> pl.Expr:
    """Node-seconds of the main amount, else the most of any: Lustre's exporter counts no operations as a whole."""
    main, *others = (_sum(name, pl.col("amount") == each) for each in (of.main, *of.amounts.values()))
    return pl.coalesce(main, pl.max_horizontal(others), 0.0).alias(name)


def _sum(name: str, which: pl.Expr) -> pl.Expr:
    return known_sum(pl.col(name).filter(which))


def _ratio(above: pl.Expr, below: pl.Expr) -> pl.Expr:
    return pl.when(below > 0).then(above / below)


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="filesystem_response",
        unit="s",
        summary="Mean time from a filesystem's request being sent to its answer, as the client's kernel counts it.",
        formula=(
            "response time per second / operations per second of the same mount, both over the time that samples cover"
        ),
        query="node_samples_between",
        function=traffic,
        interval="none: a census of the samples",
        source="mountstats (Linux NFS client): response time is round trip time; node_exporter, collector mountstats",
    ),
)
