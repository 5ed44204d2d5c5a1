"""Steps of the simulated jobs: what Slurm's samples of them say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.demo.simulate import Settings
from app.demo.simulate.plan import GPUS_PER_NODE, plan
from app.demo.simulate.scheduler import play
from app.demo.simulate.slurm_steps import MEMORY_PER_GPU_G, clock, steps
from app.demo.simulate.slurm_text import CPUS_PER_GPU, sacct
from app.demo.simulate.world import World

if TYPE_CHECKING:
    from app.demo.simulate.scheduler import Attempt

SMALL = Settings(gpus=64, days=6)


@pytest.fixture(scope="module")
def world() -> World:
    return World(play(SMALL, plan(SMALL)))


def started(world: World) -> list[Attempt]:
    return [attempt for attempt in world.attempts if attempt.started is not None]


def test_steps_use_no_more_than_their_attempt_held(world: World) -> None:
    for attempt in started(world):
        held_s = attempt.job.gpus * CPUS_PER_GPU * (world.until(attempt) - (attempt.started or 0))
        assert sum(step.cpu_s or 0.0 for step in steps(attempt, SMALL.seed)) <= held_s + 2.0
        assert max(step.rss_bytes or 0 for step in steps(attempt, SMALL.seed)) < MEMORY_PER_GPU_G * 2**30


def test_steps_of_running_jobs_have_no_record(world: World) -> None:
    for attempt in started(world):
        lost = attempt.ended is None or attempt.dead_node is not None
        assert [step.cpu_s is None for step in steps(attempt, SMALL.seed)] == [lost, lost]


def test_a_job_killed_for_memory_shows_it(world: World) -> None:
    killed = [attempt for attempt in started(world) if attempt.state == "OUT_OF_MEMORY"]
    assert killed
    for attempt in killed:
        assert (steps(attempt, SMALL.seed)[1].rss_bytes or 0) > 0.9 * MEMORY_PER_GPU_G * 2**30


def test_every_step_stands_behind_the_row_of_its_job(world: World) -> None:
    ids = [line.partition("|")[0] for line in sacct(world).splitlines()[1:]]
    for number, each in enumerate(ids):
        if each.endswith(".batch"):
            assert ids[number - 1 : number + 2] == [each.removesuffix(".batch"), each, each.replace(".batch", ".0")]
    assert sum("." in each for each in ids) == 2 * len(started(world))


def test_a_process_for_each_gpu(world: World) -> None:
    for attempt in started(world):
        script, work = steps(attempt, SMALL.seed)
        assert (script.tasks, work.tasks) == (1, attempt.job.gpus)
        assert len(work.nodes) * GPUS_PER_NODE >= work.tasks


def test_clock_carries_hours_into_days() -> None:
    assert (clock(86_399.6), clock(0), clock(172_800)) == ("1-00:00:00", "00:00:00", "2-00:00:00")
