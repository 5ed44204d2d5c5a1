"""Numbers of random data in a random order of rows, as text: the same text for every order and number of threads.

`python -m tests.metrics.same_bits ORDER` prints them; `POLARS_MAX_THREADS` sets the threads.
"""

from __future__ import annotations

import hashlib
import random
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl

from metrics import frames
from metrics.checkpoints.advice import held_time, logged_saves, restart_overheads
from metrics.ettr.ettr import ettr_by_run, ettr_total, imputed_in
from metrics.ettr.expected import expected, inputs_of, over_runs, own_inputs, starts
from metrics.exact import exact_mean, exact_sum
from metrics.failures.exposure import histories, risk_in
from metrics.failures.lemons import EXCLUSIONS, EXPOSURE, HELD, KINDS, Signals, lemon_nodes
from metrics.failures.second_order import second_order_loss
from metrics.goodput.goodput import goodput, lost
from metrics.ledger.straggling import straggling
from metrics.mfu.mfu import fleet, summary
from metrics.mfu.proxy import fits
from metrics.mfu.wall import allocated, run_mfu
from metrics.waste.waste import SPENDING, flagged, state_shares, waste
from tests.metrics.oracles.ratios import mean_of_ratios, ratio_of_sums, weighted_mean_of_ratios
from tests.metrics.tables import at, attempt, attempts, interruption, rows, spent, sums

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
    actual = []
    for _ in range(1500):
        category = dice.choice(_CATEGORIES)
        row = spent(
            category,
            dice.random() * 10 ** dice.randint(0, 5),
            evidence=dice.choice(["log", "telemetry", "accounting", "assumed"]),
            subject=dice.choice(RUNS),
            cause=dice.choice(_CAUSES.get(category, [None])),
        )
        actual.append({**row, "gpu_seconds": round(dice.random() * 1e6, 9)})
    return sums(*actual)


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
    actual = [
        {"cluster": "c", "run_id": dice.choice(RUNS[:3]), "ts": at(seconds=number), "n_gpus": 64.0,
         "wall_s": 1 + dice.random(), "flop": dice.random() * 1e18, "peak_flop": 6e16 * (1 + dice.random()),
         "gpu_model": "H100", "dtype": "bf16", "implausible": False, "impossible": False}
        for number in range(2000)
    ]  # fmt: skip
    return pl.DataFrame(actual).with_columns(mfu=pl.col("flop") / pl.col("peak_flop"))


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
          "suspended_s": 0.0, "started_at": at(begin), "ended_at": at(end)} for begin, end in hours],
        schema_overrides={"started_at": frames.TIME, "ended_at": frames.TIME},
    )  # fmt: skip


def _broken(dice: random.Random) -> pl.DataFrame:
    kinds = ["infrastructure", "preemption"]
    actual = [interruption(str(n), n / 9, n / 9 + dice.random(), dice.choice(kinds), second_order=dice.random() < 0.5)
             for n in range(700)]  # fmt: skip
    return rows(frames.INTERRUPTIONS, *actual).with_columns(
        cost_gpu_s=pl.Series([dice.random() * 1e5 for _ in actual], dtype=pl.Float64)
    )


def _hours(dice: random.Random) -> pl.DataFrame:
    return pl.DataFrame(
        [{"cluster": "c", "run_id": dice.choice(RUNS[:2]), "gpu_model": "H100", "dtype": "bf16", "clocked": True,
          "gpu_hours": 8 * dice.random(), "hfu_est": dice.random(), "mfu_log": dice.random(),
          "mfu_least": dice.random()} for _ in range(900)]
    )  # fmt: skip


def _held(dice: random.Random) -> pl.DataFrame:
    """Attempts of few sizes, each on whole and parts of GPUs, over some months."""
    begun = [2000 * dice.random() for _ in range(900)]
    return attempts(
        *(
            attempt(str(number), begin, begin, begin + 60 * dice.random(), gpus=dice.choice([1.5, 8, 64]))
            for number, begin in enumerate(begun)
        )
    )


def _trained(dice: random.Random) -> pl.DataFrame:
    """Executions of steps, 20 for each attempt of a run that is the attempt's number modulo 40."""
    actual = []
    for number in range(400):
        begin = round(number * 3.6e9 + dice.random() * 6e8) + round(at().timestamp() * 1e6)
        for _ in range(20):
            took = 1 + dice.random()
            actual.append((str(number), RUNS[number % 40], number, begin, took))
            begin += round(took * 1e6)
    named = pl.DataFrame(actual, schema=["job_id", "run", "session", "begin", "wall_s"], orient="row")
    return named.with_columns(cluster=pl.lit("c"), scheduler=pl.lit("slurm"), submitted_at=pl.lit(at()))


def _saves(dice: random.Random) -> pl.DataFrame:
    """Two saves of each of those attempts, of different lengths; some do not block."""
    begun = [(number, at(number, seconds=605 + 15 * dice.random())) for number in range(400) for _ in range(2)]
    named = {"cluster": "c", "scheduler": "slurm", "kind": "checkpoint_save"}
    return rows(
        frames.RUN_EVENTS,
        *(
            named | {"run_id": "log", "job_id": str(number), "ts": ts, "blocking": dice.random() < 0.9,
                     "ended_at": ts + timedelta(seconds=dice.random())}
            for number, ts in begun
        ),
    )  # fmt: skip


def _sessions(_dice: random.Random) -> pl.DataFrame:
    return pl.DataFrame(
        [{"cluster": "c", "run_id": "log", "scheduler": "slurm", "job_id": str(number), "session": number,
          "run": RUNS[number % 40], "usable": True, "started_at": at(number)} for number in range(400)],
        schema_overrides={"started_at": frames.TIME},
    )  # fmt: skip


def _nodes_of_unblamed(dice: random.Random) -> pl.DataFrame:
    """Attempts on 2-13 nodes that failed without one of them to blame."""
    actual = [(number, node) for number in range(300) for node in dice.sample(range(30), dice.randint(2, 13))]
    return pl.DataFrame(
        [{"cluster": "c", "run_id": "r", "attempt_no": n, "ended_at": at(n), "node": f"n{node}"} for n, node in actual],
        schema=HELD,
    )


def _of_runs(dice: random.Random, by_run: pl.DataFrame, started: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """What is expected of runs, of which some have logs of their saves."""
    named = {"cluster": "c"}
    logged = [named | {"run_id": run, "interval_s": 3600 * dice.random(), "write_s": dice.random()} for run in RUNS[9:]]
    reported = inputs_of(own_inputs(by_run, started, pl.DataFrame(logged)), 500.0)
    return {"expected": reported.sort("run_id"), "over runs": over_runs(expected(reported))}


def _startups(dice: random.Random) -> pl.DataFrame:
    return pl.DataFrame(
        [{"cluster": "c", "run_id": dice.choice(RUNS[:30]), "gpus": dice.random() * 8} for _ in range(800)]
    )


def _lemons(broken: pl.DataFrame, unblamed: pl.DataFrame) -> pl.DataFrame:
    none = Signals(pl.DataFrame(schema=KINDS), rows(frames.NODE_STATES), pl.DataFrame(schema=EXCLUSIONS))
    there = [{"cluster": "c", "node": f"n{n}", "present_gpu_s": 1e7, "ran_gpu_s": 1e6 / (n + 1)} for n in range(30)]
    return lemon_nodes(pl.DataFrame(there, schema=EXPOSURE), broken, unblamed, none, since=at(), until=at(300))


def _exposed(held: pl.DataFrame, broken: pl.DataFrame) -> pl.DataFrame:
    risk = risk_in(histories(held, broken), at(), at(2100))
    names = ("gpus", "n_attempts", "gpu_days", "node_days", "job_days", "daily")
    return pl.DataFrame({"name": names, "numbers": [str(getattr(risk, name).tolist()) for name in names]})


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
    held, trained = shuffled(_held), shuffled(_trained)
    of_runs = held.select(*frames.ATTEMPT_KEY, run_id=pl.lit("r"), attempt_no=pl.col("job_id").cast(pl.Int64))
    window = {"since": at(), "until": at(2100)}
    actual = {
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
        **_of_runs(
            dice, by_run.sample(fraction=1, shuffle=True, seed=order), starts(shuffled(_attempts), shuffled(_startups))
        ),
        "saves": logged_saves(shuffled(_saves), shuffled(_sessions), trained, **window),
        "restarts": restart_overheads(trained, held.with_columns(submitted_at=pl.lit(at()))).sort("run_id"),
        "held": held_time(held, of_runs, **window),
        "exposure": _exposed(held, broken),
        "lemons": _lemons(broken, shuffled(_nodes_of_unblamed)),
        "ratios": steps.select(
            a=ratio_of_sums(*halves),
            b=mean_of_ratios(*halves),
            c=weighted_mean_of_ratios(*halves, pl.col("wall_s")),
            d=exact_sum(pl.col("flop")),
            e=exact_mean(pl.col("wall_s")),
        ),
    }
    return "\n".join(
        f"{name} {hashlib.sha256(str(rows_.rows()).encode()).hexdigest()}" for name, rows_ in actual.items()
    )


if __name__ == "__main__":
    sys.stdout.write(numbers(int(sys.argv[1])))
