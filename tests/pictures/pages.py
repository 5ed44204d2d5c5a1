"""Pictures of every page of the explorer, light, dark, at a phone's width and as printed, and what is wrong with them.

python -m tests.pictures.pages WAREHOUSE FOLDER [PATH ...]     (all pages, if no PATH is given)

A page that is wider than its window, or that writes to the console, is named.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from app.explorer.page import pages
from queries.warehouse import open_reader
from tests.lab.browser import browser
from tests.pictures.__main__ import explorer

if TYPE_CHECKING:
    from tests.lab.browser import Browser

SIZES = {"light": (1440, 900, False), "dark": (1440, 900, True), "phone": (390, 844, False)}
"""Width, height and whether it is dark, by name."""

PAPER = 1080
"""Pixels that a printed page is made for: a printer makes them as wide as its paper."""

TALLEST = 4_000
"""Pixels of a page that a picture shows."""

PATIENCE_S = 120.0
"""How long a page may take to load all its sections."""

LOADED = "return !document.querySelector('.loading') && !document.querySelector('._dash-loading')"
WIDER = "return document.documentElement.scrollWidth - window.innerWidth"
HEIGHT = "return Math.ceil(document.querySelector('#main').getBoundingClientRect().bottom + window.scrollY)"


def addresses(warehouse: Path) -> dict[str, str]:
    """What the pages of one thing are about: path -> parameters; none without a computed run."""
    with open_reader(warehouse) as reader:
        runs = reader.table("runs").sort("n_attempts", "run_id", descending=True)
        nodes = reader.table("interruptions")["node"].drop_nulls().value_counts(sort=True)["node"]
    if runs.is_empty():
        return {}
    first, second = runs["run_id"][0], runs["run_id"][-1 if runs.height < 2 else 1]
    return {
        "/run": f"id={first}",
        "/node": f"node={nodes[0]}" if len(nodes) else "node=n1",
        "/jobs": f"user={runs['user'][0]}",
        "/compare": f"a={first}&b={second}",
    }


def picture(window: Browser, url: str, file: Path, size: tuple[int, int, bool]) -> list[str]:
    """Make one; what is wrong with the page."""
    width, height, dark = size
    window.resize(width, height)
    window.prefer(dark=dark)
    window.open(url, until="#content h1")
    window.until(lambda driver: driver.execute_script(LOADED), "all sections", seconds=PATIENCE_S)
    wide = int(str(window.run(WIDER)))
    tall = min(int(str(window.run(HEIGHT))), TALLEST)
    window.screenshot(file, width=width, height=max(tall, height), dark=dark)
    wrong = [f"{wide} px wider than its window"] if wide > 0 else []
    return wrong + window.console()


def printed(window: Browser, file: Path) -> list[str]:
    """Make one of the open page as it is printed; what is wrong with it."""
    window.resize(PAPER, 1528)
    window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    window.run("window.dispatchEvent(new Event('beforeprint'))")
    wide = int(str(window.run(WIDER)))
    tall = min(int(str(window.run(HEIGHT))), TALLEST)
    window.screenshot(file, width=PAPER, height=max(tall, 1528))
    window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    return [f"{wide} px wider than its paper"] if wide > 0 else []


def main(arguments: list[str]) -> None:
    """Make them all."""
    if len(arguments) < 2:
        sys.exit(__doc__)
    warehouse, folder, *chosen = arguments
    Path(folder).mkdir(parents=True, exist_ok=True)
    about = addresses(Path(warehouse))
    with explorer(Path(warehouse)) as url, browser(width=1440, height=900) as window:
        for path in chosen or pages():
            for name, size in SIZES.items():
                file = Path(folder) / f"{path.strip('/').replace('/', '-') or 'overview'}-{name}.png"
                wrong = picture(window, f"{url.rstrip('/')}{path}?{about.get(path, '')}", file, size)
                sys.stdout.write(f"{file}{''.join(f'  {each}' for each in wrong)}\n")
                sys.stdout.flush()
            file = Path(folder) / f"{path.strip('/').replace('/', '-') or 'overview'}-print.png"
            sys.stdout.write(f"{file}{''.join(f'  {each}' for each in printed(window, file))}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
