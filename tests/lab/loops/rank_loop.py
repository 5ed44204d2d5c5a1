"""A data-parallel training loop of real processes, run by `srun` inside jobs of the lab: compute, then wait for all.

A step's gradients are reduced by sockets: rank 0 takes a byte of every rank, and answers when it has all. Computing is
hashing: the same work on all ranks, but

    slow      rank 5 shares its core with another process of its node, and yields to it (nice)
    uneven    each rank's batch of each step is of another length

Arguments: a folder, which of these, and how many steps. Standard library only.
"""

import hashlib
import os
import random
import socket
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

SLOW_RANK = 5
NICE = 10
UNIT = b"x" * 500_000
WORK = 30
LENGTHS = (10, 10, 10, 90)
"""Hashes of a step: so many that a line's computation is long beside a busy machine's slices of time."""
STEPS_A_LINE = 10


def all_reduce_by(folder: Path, rank: int, world: int) -> list[socket.socket]:
    """Connections: of rank 0 to all others, of others to rank 0."""
    place = folder / f"port-{os.environ['SLURM_JOB_ID']}"
    if rank:
        while not place.exists():
            time.sleep(0.05)
        return [socket.create_connection(("127.0.0.1", int(place.read_text())))]
    with socket.create_server(("127.0.0.1", 0)) as server:
        half = place.with_suffix(".half")
        half.write_text(str(server.getsockname()[1]))
        half.rename(place)
        return [server.accept()[0] for _ in range(world - 1)]


def reduce(others: list[socket.socket]) -> None:
    """Wait until all ranks are here."""
    if len(others) == 1:
        others[0].sendall(b".")
    for other in others:
        if not other.recv(1):
            raise SystemExit("a rank is gone")
    if len(others) > 1:
        for other in others:
            other.sendall(b".")


def main(folder: Path, shape: str, steps: int) -> None:
    """Train."""
    trackside_log = import_module("trackside_log")  # lies beside this file where it runs
    rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    others = all_reduce_by(folder, rank, world)
    chance = random.Random(rank)
    hog = None
    if shape == "slow" and rank == SLOW_RANK:
        core = {min(os.sched_getaffinity(0))}
        os.sched_setaffinity(0, core)
        hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])  # on this core, too
        os.nice(NICE)
    times = trackside_log.rank_times(folder / f"ranks-{shape}", run_id=f"lab-{shape}", every=STEPS_A_LINE)
    try:
        for step in range(steps):
            with times.compute(step):
                for _ in range(chance.choice(LENGTHS) if shape == "uneven" else WORK):
                    hashlib.sha256(UNIT).digest()
            with times.wait(step):
                reduce(others)
        times.close()
    finally:
        if hog is not None:
            hog.kill()
            hog.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
