"""Ends a lab whose test run died: `python -m tests.lab.reaper BASE`, a pipe from the lab as standard input.

The pipe closes when the lab's process ends, however it ends, kill -9 included. A lab that stopped by
itself says so through the pipe first.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.lab.config import Layout
from tests.lab.processes import STOPPED, end_ledger


def start(base: Path) -> subprocess.Popen[bytes]:
    """The process that ends a lab in `base` should this one die; tell it `STOPPED` when the lab has stopped."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.lab.reaper", str(base)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )


def main(base: Path) -> None:
    """Wait for the end of the pipe, then clean up unless the lab has done it."""
    if sys.stdin.buffer.read() == STOPPED:
        return
    layout = Layout(base)
    end_ledger(layout.ledger, layout.slurmd_logs)
    shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
