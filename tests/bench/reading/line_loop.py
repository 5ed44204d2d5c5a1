"""What people write to read sacct: a loop over the lines. Typed values, GPUs from TRES, one row per job and node.

Run as a program. It believes every line, merges nothing, and keeps no account; otherwise it does the work of ingest.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime

import duckdb
import polars as pl

RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def main() -> None:
    """Arguments: the text, the database to make."""
    text, database = sys.argv[1:]
    jobs: list[dict[str, object]] = []
    nodes: list[tuple[object, ...]] = []
    with open(text, encoding="utf-8") as file:  # noqa: PTH123 - as people write it
        header = next(file).rstrip("\n").split("|")
        for line in file:
            row = dict(zip(header, line.rstrip("\n").split("|"), strict=True))
            job = typed(row)
            jobs.append(job)
            names = expand(row["NodeList"])
            share = float(str(job["GPUs"])) / len(names)
            nodes.extend((job["JobIDRaw"], job["Submit"], name, share) for name in names)
    with duckdb.connect(database) as connection:
        connection.register("jobs", pl.DataFrame(jobs).to_arrow())
        connection.execute("CREATE TABLE attempts AS SELECT * FROM jobs")
        columns = ["job", "submit", "node", "gpus"]
        connection.register("nodes", pl.DataFrame(nodes, schema=columns, orient="row").to_arrow())
        connection.execute("CREATE TABLE attempt_nodes AS SELECT * FROM nodes")


def typed(row: dict[str, str]) -> dict[str, object]:
    """The values of a row as what they are."""
    result: dict[str, object] = dict(row)
    for name in ("Submit", "Eligible", "Start", "End"):
        result[name] = datetime.fromtimestamp(int(row[name]), UTC) if row[name].isdigit() else None
    for name in ("GID", "UID", "NNodes", "NCPUS"):
        result[name] = int(row[name])
    days, _, clock = row["Elapsed"].rpartition("-")
    hours, minutes, seconds = map(int, clock.split(":"))
    result["Elapsed"] = float(int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds)
    code, _, signal = row["ExitCode"].partition(":")
    result["ExitCode"], result["Signal"] = int(code), int(signal)
    state, _, by = row["State"].partition(" by ")
    result["State"], result["CancelledBy"] = state, by or None
    given, requested = tres(row["AllocTRES"]), tres(row["ReqTRES"])
    result["GPUs"], result["AskedGPUs"] = float(given.get("gres/gpu", 0)), float(requested.get("gres/gpu", 0))
    result["Model"] = next((name.split(":")[1] for name in given if name.startswith("gres/gpu:")), None)
    result["Memory"] = int(given["mem"].rstrip("G")) * 1024**3
    return result


def tres(text: str) -> dict[str, str]:
    """A TRES text by name."""
    return dict(item.split("=", 1) for item in text.split(","))


def expand(text: str) -> list[str]:
    """The names of a node list with brackets at its end."""
    prefix, _, inside = text.partition("[")
    if not inside:
        return [text]
    names: list[str] = []
    for low, high in RANGE.findall(inside):
        names.extend(f"{prefix}{number:0{len(low)}d}" for number in range(int(low), int(high or low) + 1))
    return names


if __name__ == "__main__":
    main()
