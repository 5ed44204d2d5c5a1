"""What grows with a fleet: `python -m tests.bench.fleet [CLUSTERS CLUSTERS] [--gpus N] [--days N]`, 16 and 64 clusters.

One cluster is simulated, read, computed and committed: that is what each cluster costs, and it does not depend on the
others. Then its lake grows (`grown.py`), and what does depend on them is measured: a commit of one cluster, the first
question after it, later ones, and a question while commits go on. Every step is a process of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.fleet.growth import Fleet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.engine import Cost


def tell(title: str, costs: dict[str, Cost]) -> None:
    """Print what steps cost."""
    load = f"load {os.getloadavg()[0]:.0f}"
    for name, cost in costs.items():
        memory = "" if cost.peak_mib is None else f", {cost.peak_mib:,.0f} MiB"
        print(f"{title}: {name}: {cost.cpu_s:.2f} CPU s{memory} ({load})", flush=True)


def main(arguments: Sequence[str]) -> None:
    """Print the costs, and how they grow."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet")
    parser.add_argument("clusters", nargs="*", type=int, default=[16, 64])
    parser.add_argument("--gpus", type=int, default=64, help="of each cluster")
    parser.add_argument("--days", type=int, default=30)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="trackside-fleet-") as folder:
        fleet = Fleet(Path(folder), gpus=options.gpus, days=options.days)
        tell("each cluster", fleet.first_cluster())
        before: dict[str, Cost] = {}
        for clusters in options.clusters:
            fleet.grow_to(clusters)
            costs = fleet.of_the_fleet()
            tell(f"{clusters} clusters", costs)
            for name, cost in costs.items() if before else ():
                print(f"growth of {name}: {cost.cpu_s / before[name].cpu_s:.2f} times the CPU s")
            before = costs
        alone, beside = fleet.reader_beside_commits()
        for what in ("cpu_s", "seconds"):
            one, other = getattr(alone, what), getattr(beside, what)
            print(f"a question alone {one:.2f}, while commits go on {other:.2f} {what}: {other / one:.2f} times")


if __name__ == "__main__":
    main(sys.argv[1:])
