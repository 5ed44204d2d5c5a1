"""Accounting, run logs and the ledger of a cluster of some size: what a new day of them costs.

Attempts are those of `tests.bench.year`, in proportion to the GPUs (0.43 a GPU and day). Every 64 GPUs keep a log, with
a step every ten seconds and a checkpoint every half hour.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

import numpy as np

from tests.bench.engine import after, before
from tests.bench.sizes import measure
from tests.bench.sizes.measure import Bench, Size, in_a_process
from tests.bench.year import ATTEMPTS, BEGIN, GPUS, NODES, YEAR_S, write_dumps, year

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.bench.sizes.measure import Step

DAY_S: Final = 86_400
GPUS_PER_LOG: Final = 64
STEP_S: Final = 10
SAVED_EVERY: Final = 180
"""Steps from one checkpoint to the next."""

_STEPS: Final = DAY_S // STEP_S

_A_DAY: Final = ATTEMPTS / (NODES * GPUS) / (YEAR_S / DAY_S)
"""Attempts of a GPU and day."""


def measured(folder: Path, gpus: int) -> Size:
    """Make a cluster's dumps and logs, and measure what its last day costs."""
    load = os.getloadavg()[0]
    in_a_process(_make, folder, gpus)
    bench = Bench(folder, "bench")
    return Size(gpus, 0, load, tuple(_steps(bench, folder)), *bench.parts)


def _steps(bench: Bench, folder: Path) -> Iterator[Step]:
    """All but the last day first, as a warehouse has it that is kept up to date."""
    past, new, logs = (sorted(map(str, (folder / name).iterdir())) for name in ("past", "new", "logs"))
    yield bench.step("accounting of the days before", measure.DAYS - 1, "ingest", "slurm", *past)
    yield bench.step("compute of them", measure.DAYS - 1, "compute")
    yield bench.copy("first copy into a lake", measure.DAYS - 1)
    yield bench.step(measure.ACCOUNTING, 1, "ingest", "slurm", *new)
    yield bench.step(measure.LOGS, 1, "ingest", "runlog", *logs)
    yield bench.step(measure.NEW_DAY, 1, "compute")
    yield bench.copy(measure.COMMIT_DAY, 1)
    yield bench.of_lake(measure.SHOW, "show", "goodput")


def _make(folder: Path, gpus: int) -> None:
    last = (measure.DAYS - 1) * DAY_S
    made = year(round(gpus * measure.DAYS * _A_DAY), nodes=gpus // GPUS, until=measure.DAYS * DAY_S)
    for part, name in ((before(made, last), "past"), (after(made, last), "new")):
        (folder / name).mkdir(parents=True)
        write_dumps(part, folder / name)
    (folder / "logs").mkdir()
    for number in range(gpus // GPUS_PER_LOG):
        (folder / "logs" / f"r{number:05d}.jsonl").write_text(_log(number, int(BEGIN.timestamp()) + last))


def _log(number: int, begin: int) -> str:
    """A day of a run, as its training loop logs it."""
    run = {"type": "run", "v": 1, "run_id": f"r{number:05d}", "t": begin, "n_gpus": GPUS_PER_LOG, "cluster": "bench"}
    chance = np.random.default_rng([64, number])
    losses, spare = chance.normal(2.5, 0.05, _STEPS).tolist(), chance.random(_STEPS).tolist()
    lines = [json.dumps(run)]
    for step, (loss, slack) in enumerate(zip(losses, spare, strict=True)):
        at = begin + step * STEP_S
        took = f'"duration_s":{STEP_S - slack:.3f},"tokens":4194304,"loss":{loss:.4f}'
        lines.append(f'{{"type":"step","step":{step},"t":{at},{took}}}')
        if step % SAVED_EVERY == SAVED_EVERY - 1:
            saved = f'"begin":{at + STEP_S - 0.2},"end":{at + STEP_S},"durable":{at + STEP_S},"blocking":true'
            lines.append(f'{{"type":"ckpt","step":{step},{saved}}}')
    return "\n".join(lines) + "\n"
