"""Numbers of random data in a random order of rows, as text: the same text for every order and number of threads.

`python -m tests.metrics.same_bits ORDER` prints them; `POLARS_MAX_THREADS` sets the threads.
"""

from __future__ import annotations

import hashlib
import random
import sys
from typing import TYPE_CHECKING

import polars as pl

from metrics import frames
from metrics.ettr import ettr_by_run, ettr_total, imputed_in
from metrics.exact import exact_mean, exact_sum
from metrics.goodput import goodput, lost
from metrics.mfu import fleet, summary
from metrics.mfu_proxy import fits
from metrics.run_mfu import allocated, run_mfu
from metrics.second_order import second_order_loss
from metrics.statistics import mean_of_ratios, ratio_of_sums, weighted_mean_of_ratios
from metrics.straggling import straggling
from metrics.waste import SPENDING, flagged, state_shares, waste
from tests.metrics.tables import at, interruption, rows, spent, sums

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = [f"run-{number}" for number in range(40)]
_CAUSES: dict[str, list[str | None]] = {
    "productive": [None, "provisional"],
    "stalled": ["lockstep", "inactive"],
    "lost": ["xid"],
}
_CATEGORIES = ["productive", "lost", "startup", "checkpoint", "stalled", "unattributed", "teardown"]


def _ledger(dice: random.Random) -> pl.DataFrame:
    found = []
    for _ in range(1500):
        category = dice.choice(_CATEGORIES)
        row = spent(
            category,
            dice.random() * 10 ** dice.randint(0, 5),
            evidence=dice.choice(["log", "telemetry", "accounting", "assumed"]),
            subject=dice.choice(RUNS),
            cause=dice.choice(_CAUSES.get(category, [None])),
        )
        found.append({**row, "gpu_seconds": round(dice.random() * 1e6, 9)})
    return sums(*found)


def _spending(dice: random.Random) -> pl.DataFrame:
    amounts = [name for name in SPENDING if name.endswith("_s") and name != "time_limit_s"]
    return rows(
        SPENDING,
        *(
            {
                "cluster": "c", "scheduler": "slurm", "job_id": str(number), "submitted_at": at(number / 100),
                "run_id": dice.choice(RUNS), "user": dice.choice("abc"), "account": "a", "partition": "p",
                "name": f"train-{number}", "state": dice.choice(["COMPLETED", "FAILED", "TIMEOUT"]),
                "started_at": at(number / 100), "ended_at": at(number / 100 + 3 * dice.random()),
                "time_limit_s": 14_400.0, "n_gpus": 8.0, **{name: dice.random() * 1e6 for name in amounts},
                "suspended_s": 0.0,
            }
            for number in range(1200)
        ),
    )  # fmt: skip


def _steps(dice: random.Random) -> pl.DataFrame:
    found = [
        {"cluster": "c", "run_id": dice.choice(RUNS[:3]), "ts": at(seconds=number), "n_gpus": 64.0,
         "wall_s": 1 + dice.random(), "flop": dice.random() * 1e18, "peak_flop": 6e16 * (1 + dice.random()),
         "gpu_model": "H100", "dtype": "bf16", "implausible": False, "impossible": False}
        for number in range(2000)
    ]  # fmt: skip
    return pl.DataFrame(found).with_columns(mfu=pl.col("flop") / pl.col("peak_flop"))


def _executed(dice: random.Random) -> pl.DataFrame:
    step = 7_300_000
    begun = [number * step for number in range(20_000)]
    return pl.DataFrame(
        {
            "cluster": "c", "scheduler": "slurm", "job_id": "7", "submitted_at": at(), "session": 0,
            "begin": begun, "reach": [moment + step for moment in begun],
            "own_s": [7.0 + dice.random() * dice.choice([0, 0, 3]) for _ in begun], "kept": True,
        },
        schema_overrides={"submitted_at": frames.TIME},
    )  # fmt: skip


def _waits(dice: random.Random) -> pl.DataFrame:
    return pl.DataFrame(
        [{"cluster": "c", "run_id": dice.choice(RUNS), "initial": dice.random() < 0.5, "milli_gpus": 8000,
          "wait_s": dice.random() * 1e4} for _ in range(800)]
    )  # fmt: skip


def _attempts(dice: random.Random) -> pl.DataFrame:
    hours = [(number / 7, number / 7 + 20 * dice.random()) for number in range(900)]
    return pl.DataFrame(
        [{"cluster": "c", "run_id": dice.choice(RUNS), "joined_by": "single", "state": "COMPLETED", "milli_gpus": 8000,
          "started_at": at(begin), "ended_at": at(end)} for begin, end in hours],
        schema_overrides={"started_at": frames.TIME, "ended_at": frames.TIME},
    )  # fmt: skip


def _broken(dice: random.Random) -> pl.DataFrame:
    kinds = ["infrastructure", "preemption"]
    found = [interruption(str(n), n / 9, n / 9 + dice.random(), dice.choice(kinds), second_order=dice.random() < 0.5)
             for n in range(700)]  # fmt: skip
    return rows(frames.INTERRUPTIONS, *found).with_columns(
        cost_gpu_s=pl.Series([dice.random() * 1e5 for _ in found], dtype=pl.Float64)
    )


def _hours(dice: random.Random) -> pl.DataFrame:
    return pl.DataFrame(
        [{"cluster": "c", "run_id": dice.choice(RUNS[:2]), "gpu_model": "H100", "dtype": "bf16", "clocked": True,
          "gpu_hours": 8 * dice.random(), "hfu_est": dice.random(), "mfu_log": dice.random(),
          "mfu_least": dice.random()} for _ in range(900)]
    )  # fmt: skip


def numbers(order: int) -> str:
    """A digest of each result, of inputs whose rows are in this order."""
    dice = random.Random(7)

    def shuffled(make: Callable[[random.Random], pl.DataFrame]) -> pl.DataFrame:
        return make(dice).sample(fraction=1, shuffle=True, seed=order)

    ledger, broken, steps = shuffled(_ledger), shuffled(_broken), shuffled(_steps)
    of_cluster = ledger.with_columns(subject=pl.lit("c"))
    known = pl.DataFrame({"run_id": RUNS}).with_columns(
        cluster=pl.lit("c"), n_attempts=1, milli_gpus=8000, started_at=pl.lit(at()), ended_at=pl.lit(at(9))
    )
    by_run = ettr_by_run(shuffled(_waits), ledger, imputed_in(shuffled(_attempts), at(), at(200)), known)
    flags = flagged(shuffled(_spending), since=at(), until=at(100))
    ended = flags.select(subject="user", ending=pl.lit("fail"), gpu_s="allocated_s", n=pl.lit(1))
    halves = (pl.col("flop"), pl.col("peak_flop"))
    found = {
        "ettr": by_run.drop("milli_gpus"),
        "total": ettr_total(by_run.sample(fraction=1, shuffle=True, seed=order)),
        "goodput": goodput(of_cluster, pl.Series(["c"])),
        "lost": lost(of_cluster),
        "waste": pl.concat([waste(flags), waste(flags, "user")]),
        "endings": state_shares(ended),
        "orders": second_order_loss(broken),
        "run mfu": run_mfu(steps, allocated(ledger.with_columns(subject=pl.lit(RUNS[0])))),
        "mfu": summary(steps, seed=1, resamples=40),
        "fleet": pl.DataFrame([vars(fleet(steps, seed=1, resamples=40))]),
        "proxy": fits(shuffled(_hours)),
        "straggling": straggling(shuffled(_executed)),
        "ratios": steps.select(
            a=ratio_of_sums(*halves),
            b=mean_of_ratios(*halves),
            c=weighted_mean_of_ratios(*halves, pl.col("wall_s")),
            d=exact_sum(pl.col("flop")),
            e=exact_mean(pl.col("wall_s")),
        ),
    }
    return "\n".join(
        f"{name} {hashlib.sha256(str(rows_.rows()).encode()).hexdigest()}" for name, rows_ in found.items()
    )


if __name__ == "__main__":
    sys.stdout.write(numbers(int(sys.argv[1])))
