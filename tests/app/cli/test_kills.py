"""kill -9 at random moments of every verb that writes, and before every change to a folder: nothing is lost.

A scenario is killed some times on a copy of its warehouse, the published copy being whole after each; then it is run to
its end, and everything that is stored equals what a run that nobody killed stores. `make test` takes a third of the
kinds of change to a folder, another third in the next scenario, and a random moment; TRACKSIDE_TEST_KILLS=all takes
all.
"""

from __future__ import annotations

import functools
import os
import random
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pytest

from queries.errors import NoWarehouseError
from queries.warehouse import open_reader
from tests.ingest.prometheus.store.test_storage import minutes
from tests.ingest.runlog import test_store
from tests.support.command import contents
from tests.support.killing import DUMP, Kill, killer
from tests.support.slurm.dumps import START, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.killing import Killer

ALL = os.environ.get("TRACKSIDE_TEST_KILLS") == "all"
MOMENTS = 120
KILLS_A_RUN = 10
"""Kills of a warehouse before it is run to its end."""

CONFIG = """\
warehouse = "w"
cluster = "tiny"
[slurm]
lookback_days = 34
window_days = 34
retries = 0
[retention]
samples_days = 31
[serve]
runlogs = ["*.jsonl"]
"""

SLURM = ("ingest", "slurm", "sacct.txt", "events.txt", "nodes.txt", "config.txt")
PROMETHEUS = ("ingest", "prometheus", "--cluster", "tiny", "node_samples.parquet", "gpu_samples.parquet")
RUNLOG = ("ingest", "runlog", "run.jsonl")
COMPUTE = ("compute",)
SERVE = ("serve", "--every", "1000", "--port", "0")
FAILED = next(row.split("|")[0] for row in rows_of(DUMP.accounting) if "|NODE_FAIL|" in row)
CAUSE = ("adjudicate", "cause", "--job", FAILED, "--attempt", "1", "--class", "user", "--cause", "oom",
         "--author", "me", "--reason", "it was seen")  # fmt: skip


@dataclass(frozen=True)
class Scenario:
    """A verb that is killed, what was run before it, and its share of all moments."""

    verb: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    share: float = 1.0


LOADED = (SLURM, PROMETHEUS, RUNLOG)
SCENARIOS = {
    "ingest slurm": Scenario(SLURM),
    "ingest slurm, live": Scenario(("ingest", "slurm")),
    "ingest prometheus": Scenario(PROMETHEUS, (SLURM,)),
    "ingest runlog": Scenario(RUNLOG, (SLURM,)),
    "compute": Scenario((*COMPUTE, "--full"), LOADED, 1.5),  # a second one would have nothing to do
    "adjudicate": Scenario(CAUSE, (*LOADED, COMPUTE)),
    "retention": Scenario(("retention",), (*LOADED, COMPUTE)),
    "serve": Scenario(SERVE, (PROMETHEUS,), 1.5),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    DUMP.write(folder)
    (folder / "trackside.toml").write_text(CONFIG)
    job = rows_of(DUMP.accounting)[0].split("|")[0]
    log = test_store.session(0, "r", cluster="tiny", steps=60).replace('"job_id": "29"', f'"job_id": "{job}"')
    (folder / "run.jsonl").write_text(log)
    for name, rows in minutes(0, 180).items():
        begins = pl.from_epoch(pl.lit(START + 79_200)).dt.replace_time_zone("UTC")
        moved = (pl.col("ts") - pl.col("ts").min() + begins).dt.cast_time_unit("us")
        rows.with_columns(moved.alias("ts"), cluster=pl.lit("tiny")).write_parquet(folder / f"{name}.parquet")
    return folder


@pytest.fixture(scope="module")
def killing() -> Iterator[Killer]:
    with killer() as made:
        yield made


@dataclass(frozen=True)
class Prepared:
    """A folder in which a scenario begins, one in which nobody killed it, and what that took."""

    base: Path
    reference: Path
    seconds: float
    changes: list[str]


LATER_S = 60.0
"""A scenario's verb is run so long after what was run before it."""


def run(killing: Killer, folder: Path, verb: tuple[str, ...], later_s: float = LATER_S) -> tuple[float, list[str]]:
    done = killing.run(folder, *verb, later_s=later_s)
    assert done.status == 0, (folder / "said.txt").read_text()[-3000:]
    return done.seconds, done.changes


@pytest.fixture(scope="module")
def after(
    inputs: Path, killing: Killer, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[tuple[tuple[str, ...], ...]], Path]:
    """A folder in which these verbs were run one after the other: scenarios begin with the same ones."""

    @functools.cache
    def made(verbs: tuple[tuple[str, ...], ...]) -> Path:
        if not verbs:
            return inputs
        folder = shutil.copytree(made(verbs[:-1]), tmp_path_factory.mktemp("before") / "base")
        run(killing, folder, verbs[-1], later_s=0.0)
        return folder

    return made


@pytest.fixture(scope="module")
def prepared(
    request: pytest.FixtureRequest,
    after: Callable[[tuple[tuple[str, ...], ...]], Path],
    killing: Killer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Prepared:
    scenario = SCENARIOS[request.param]
    folder = tmp_path_factory.mktemp("kills")
    base = shutil.copytree(after(scenario.before), folder / "base")
    reference = shutil.copytree(base, folder / "reference")
    return Prepared(base, reference, *run(killing, reference, scenario.verb))


def moments(name: str, prepared: Prepared) -> list[Kill]:
    """Random moments of a scenario, and each of its changes to a folder; a part of both unless all are run.

    The part has no two changes of one kind, such as the folders of two days. What all verbs do, publishing say, is one
    code: of every three scenarios each does another third of it.
    """
    whole = sum(each.share for each in SCENARIOS.values())
    chance = random.Random(name)
    count = -(-MOMENTS * SCENARIOS[name].share // whole)
    timed = [Kill(after_s=chance.uniform(0.02, 1.0) * prepared.seconds) for _ in range(int(count))]
    if ALL:
        return [*timed, *(Kill(before_change=number) for number in range(1, len(prepared.changes) + 1))]
    first = {
        kind: number for number, kind in reversed(list(enumerate(prepared.changes, 1))) if "__pycache__" not in kind
    }
    return [
        timed[0],
        *(Kill(before_change=each) for each in sorted(first.values())[list(SCENARIOS).index(name) % 3 :: 3]),
    ]


def whole(folder: Path) -> None:
    """Whatever was published last can be read, and no law is broken."""
    try:
        with open_reader(folder / "w") as reader:
            assert not [result for result in reader.checks() if result.check.severity == "stop"]
    except NoWarehouseError:
        return


@pytest.mark.slow
@pytest.mark.parametrize(("prepared", "name"), [(name, name) for name in SCENARIOS], indirect=["prepared"])
def test_a_kill_at_any_moment_loses_nothing(prepared: Prepared, name: str, killing: Killer, tmp_path: Path) -> None:
    kills, killed = moments(name, prepared), 0
    expected = contents(prepared.reference / "w")
    for number, first in enumerate(range(0, len(kills), KILLS_A_RUN)):
        folder = shutil.copytree(prepared.base, tmp_path / str(number))
        for kill in kills[first : first + KILLS_A_RUN]:
            ended = killing.run(folder, *SCENARIOS[name].verb, kill=kill, later_s=LATER_S)
            output = (folder / "said.txt").read_text()[-3000:]
            assert ended.status in {None, 0}, f"{kill}: {output}"
            killed += ended.status is None
            whole(folder)
        run(killing, folder, SCENARIOS[name].verb)
        for table, rows in contents(folder / "w").items():
            assert rows.equals(expected[table]), f"{kills[first : first + KILLS_A_RUN]}: {table} differs"
        shutil.rmtree(folder)
    assert killed >= len(kills) / 4  # the others had ended before their moment came
