"""Many people at the explorer at once: each opens pages, waits for all their sections, and reads for a while.

python -m tests.bench.visitors WAREHOUSE [PEOPLE] [SECONDS]     (50 people for 600 seconds, if not given)

Everybody asks what a browser asks: the page's frame, then its sections, six at once. One person's visits come first, to
compare with: the first, for which all answers are computed, and another, like those of people who come later. All are
timed by request. The server is a process of its own, on the loopback.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from queries.warehouse import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FRAME: Final = (
    ("nav", "children"),
    ("filters", "children"),
    ("content", "children"),
    ("page-title", "data"),
    ("version", "data"),
    ("refresh", "style"),
)
"""What the callback of an address returns."""

READING_S: Final = (2.0, 8.0)
"""A person reads a page for so long, at least and at most."""

AT_ONCE: Final = 6
"""Connections that a browser opens to one server."""

PAGES: Final = ("/", "/today", "/gpu-time", "/runs", "/nodes", "/reliability", "/people", "/checkpoints")
"""Pages of the scenario, besides runs of all sizes and the jobs of several users."""


@dataclass
class Visit:
    """What people have waited for.

    Attributes:
        seconds: of each request that was answered.
        errors: what went wrong, in words.
        of_section: the longest wait for each section, by page and name; a page's frame has no name.
    """

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    of_section: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def p95(self) -> float:
        """The 95th percentile of the seconds."""
        return statistics.quantiles(self.seconds, n=20)[-1] if len(self.seconds) > 1 else max(self.seconds)


def open_page(url: str, path: str, search: str, visit: Visit) -> None:
    """Ask for a page and for all its sections, as many at once as a browser does, as `visit` counts them."""
    frame = json.loads(_post(url, _frame(url, path, search), visit, (path, "")) or "{}")
    content = frame.get("response", {}).get("content", {}).get("children")
    waiting = list(_sections(content))
    with ThreadPoolExecutor(AT_ONCE) as connections:
        asked = [connections.submit(_ask, url, (path, search), name, to_ask, visit) for name, to_ask in waiting]
    for each in asked:
        each.result()


def _ask(url: str, page: tuple[str, str], name: str, asked: Any, visit: Visit) -> None:
    """Ask for a section; one with an error counts as one."""
    path, search = page
    answer = _post(url, _section(name, asked), visit, (path, name))
    named = json.dumps({"type": "section", "name": name}, sort_keys=True, separators=(",", ":"))
    shown = json.dumps(named).encode() + b":{"
    if b"error-text" in answer or shown not in answer:  # parsed, they would take this process's time from others
        visit.errors.append(f"{path}{search} {name}: {answer[:200]!r}")


def people(url: str, addresses: Sequence[tuple[str, str]], *, number: int, seconds: float, seed: int = 22) -> Visit:
    """So many people, each opening pages in an order of its own until the time is over."""
    visit, until = Visit(), time.monotonic() + seconds
    together = [
        threading.Thread(target=_person, args=(url, addresses, visit, until, random.Random(f"{seed} {each}")))
        for each in range(number)
    ]
    for each in together:
        each.start()
    for each in together:
        each.join()
    return visit


def _person(url: str, addresses: Sequence[tuple[str, str]], visit: Visit, until: float, dice: random.Random) -> None:
    while time.monotonic() < until:
        try:
            open_page(url, *dice.choice(addresses), visit)
        except (OSError, ValueError, http.client.HTTPException) as error:
            visit.errors.append(f"{type(error).__name__}: {error}")
        time.sleep(min(dice.uniform(*READING_S), max(until - time.monotonic(), 0)))


def scenario(warehouse: Path, *, runs: int = 20, users: int = 10) -> list[tuple[str, str]]:
    """The addresses that people open: each page, the largest runs, the jobs of those who have most of them."""
    with open_reader(warehouse) as reader:
        largest = reader.frame("SELECT run_id FROM runs ORDER BY n_gpus DESC NULLS LAST, run_id LIMIT $n", {"n": runs})
        most = reader.frame(
            'SELECT "user" FROM runs GROUP BY ALL ORDER BY COUNT(*) DESC, "user" LIMIT $n', {"n": users}
        )
    of_runs = [("/run", f"?{urlencode({'id': each})}") for each in largest["run_id"]]
    of_users = [("/jobs", f"?{urlencode({'user': each})}") for each in most["user"].drop_nulls()]
    return [*((page, "") for page in PAGES), *of_runs, *of_users]


def _frame(url: str, path: str, search: str) -> dict[str, Any]:
    names = [f"{name}.{what}" for name, what in _FRAME]
    return {
        "output": f"..{'...'.join(names)}..",
        "outputs": [{"id": name, "property": what} for name, what in _FRAME],
        "inputs": [
            {"id": "url", "property": "pathname", "value": path},
            {"id": "url", "property": "search", "value": search},
            {"id": "refresh", "property": "n_clicks", "value": None},
        ],
        "changedPropIds": ["url.pathname", "url.search"],
        "state": [{"id": "url", "property": "href", "value": f"{url}{path}{search}"}],
    }


def _section(name: str, asked: Any) -> dict[str, Any]:
    to, of = {"name": name, "type": "section"}, {"name": name, "type": "ask"}
    return {
        "output": '{"name":["MATCH"],"type":"section"}.children',
        "outputs": {"id": to, "property": "children"},
        "inputs": [{"id": of, "property": "data", "value": asked}],
        "changedPropIds": [f"{json.dumps(of, sort_keys=True, separators=(',', ':'))}.data"],
        "state": [{"id": of, "property": "id", "value": of}],
    }


def _sections(component: Any) -> Iterator[tuple[str, Any]]:
    """What a page still has to ask for: names of sections, and what to ask."""
    if isinstance(component, list):
        for each in component:
            yield from _sections(each)
    elif isinstance(component, dict):
        props = component.get("props", {})
        named = props.get("id")
        if isinstance(named, dict) and named.get("type") == "ask":
            yield named["name"], props["data"]
        yield from _sections(props.get("children"))


def _post(url: str, body: dict[str, Any], visit: Visit, section: tuple[str, str]) -> bytes:
    """The answer of a callback; what fails is counted, and empty."""
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=150)
    began = time.monotonic()
    origin = f"http://{at.hostname}:{at.port}"
    try:
        headers = {"Content-Type": "application/json", "Origin": origin, "Sec-Fetch-Site": "same-origin"}
        connection.request("POST", "/_dash-update-component", json.dumps(body), headers)
        response = connection.getresponse()
        data = response.read()
    finally:
        connection.close()
    visit.seconds.append(time.monotonic() - began)
    visit.of_section[section] = max(visit.seconds[-1], visit.of_section.get(section, 0.0))
    if response.status != 200:
        visit.errors.append(f"HTTP {response.status}: {data[:200]!r}")
        return b""
    return data


@contextmanager
def served(warehouse: Path) -> Iterator[tuple[str, int]]:
    """The explorer of a warehouse on a free port: its address and process id."""
    command = [sys.executable, "-m", "app.cli.main", "explore", "--port", "0", "--warehouse", str(warehouse)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "http://" in line)
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield re.findall(r"http://[^\s/]+", line)[0], process.pid
        finally:
            process.terminate()


def memory_mib(pid: int) -> float:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, of the user and the system."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(arguments: Sequence[str]) -> None:
    """Print one person's times, those of many, what each request cost the server, and its memory meanwhile."""
    warehouse = Path(arguments[0])
    number = int(arguments[1]) if len(arguments) > 1 else 50
    seconds = float(arguments[2]) if len(arguments) > 2 else 600.0
    addresses = scenario(warehouse)
    with served(warehouse) as (url, pid):
        for name in ("one person, the first", "one person, later"):
            alone, before = Visit(), cpu_seconds(pid)
            for address in addresses:
                open_page(url, *address, alone)
            _told(name, alone, cpu_seconds(pid) - before)
            _slowest(alone)
        memory, over = [memory_mib(pid)], threading.Event()

        def watch() -> None:
            while not over.wait(seconds / 30):
                memory.append(memory_mib(pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        before = cpu_seconds(pid)
        together = people(url, addresses, number=number, seconds=seconds)
        used = cpu_seconds(pid) - before
        over.set()
        watcher.join()
    _told(f"{number} people", together, used)
    print("memory, MiB:", *(f"{each:.0f}" for each in memory[:: max(1, len(memory) // 10)]), f"most {max(memory):.0f}")


SLOWEST: Final = 8
"""Sections that are named."""


def _slowest(visit: Visit) -> None:
    """The sections that a person waited longest for."""
    slow = sorted(visit.of_section.items(), key=lambda each: -each[1])[:SLOWEST]
    print("  slowest:", ", ".join(f"{path} {name} {seconds:.2f} s" for (path, name), seconds in slow), flush=True)


def _told(name: str, visit: Visit, used_s: float) -> None:
    each = f"p95 {visit.p95:.2f} s, {1000 * used_s / len(visit.seconds):.0f} ms of CPU each"
    print(f"{name}: {len(visit.seconds):,} requests, {each}, {len(visit.errors)} errors", flush=True)
    print(*visit.errors[:3], sep="\n", end="\n" if visit.errors else "", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
