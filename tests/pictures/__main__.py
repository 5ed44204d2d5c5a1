"""Make the README's pictures: the demo's explorer and report in a real browser, and the board's preview.

python -m tests.pictures [DEMO_FOLDER]     (a demo that is there already is used; else one is made for it)
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.dashboards import preview
from tests.lab.browser import browser

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
WIDTH = 1440
RUN = "pretrain-34b"


@contextmanager
def explorer(warehouse: Path) -> Iterator[str]:
    """The explorer on a free port; its address."""
    command = [sys.executable, "-m", "app.cli.main", "explore", "--port", "0", "--warehouse", str(warehouse)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        output = next(line for line in process.stderr if "http://" in line)
        try:
            yield re.findall(r"http://\S+", output)[0]
        finally:
            process.terminate()


def main(arguments: list[str]) -> None:
    """Make them all."""
    with tempfile.TemporaryDirectory(prefix="trackside-pictures-") as name:
        demo = Path(arguments[0]) if arguments else Path(name) / "demo"
        trackside = [sys.executable, "-m", "app.cli.main"]
        subprocess.run([*trackside, "demo", "--no-serve", "--dir", str(demo)], check=True)
        report = Path(name) / "report.html"
        period = ["--period", "2026-10", "--warehouse", str(demo / "warehouse"), "-o", str(report)]
        subprocess.run([*trackside, "report", "sla", *period], check=True)
        with explorer(demo / "warehouse") as url, browser(width=WIDTH, height=900) as window:
            window.open(f"{url}?cluster=demo", until=".main-svg")
            window.screenshot(HERE / "overview.png", width=WIDTH, height=1180, dark=False)
            window.open(f"{url}run?cluster=demo&id={RUN}", until=".main-svg")
            window.screenshot(HERE / "run.png", width=WIDTH, height=1700, dark=False)
            window.open(report.as_uri(), until="h1")
            window.screenshot(HERE / "report.png", width=900, height=1150, dark=False)
        preview.main([str(demo / "warehouse"), name, "fleet"])
        shutil.copy(Path(name) / "fleet.png", HERE / "board.png")


if __name__ == "__main__":
    main(sys.argv[1:])
