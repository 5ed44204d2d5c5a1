"""What happened to a run, on its own axis of steps: for programs, and for the charts of Weights & Biases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.json_text import as_json
from app.results.runs.run_logs import computed_logs
from app.run_page.log_only import LogOnly, read
from app.run_page.one_run import OneRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from app.config.settings import Rules
    from app.run_page.contents import Row, RunContents
    from app.window import RowSource
    from queries.warehouse import Reader


def events_of(reader: Reader, contents: RunContents, rules: Rules) -> list[Row]:
    """Interruptions, incidents, drains and lost steps of a run, by time.

    Args:
        reader: the published copy.
        contents: the numbers of its page.
        rules: as in `app.run_page.contents.gather`.

    Returns:
        One object for each: `kind` (`interruption`, `incident`, `drain`, `down` or `lost_steps`), `begin`, `end` (null
        where it has none, or lasts), `step` (the last one that began by then; null without a log), `text`, `node`, and
        what else is known of its kind. Seconds, and GPU-seconds.
    """
    executed = _executed(reader, contents, rules)
    choice = contents.choice
    drains = (
        pl.DataFrame()
        if choice.logged_only
        else reader.query("run_drains", cluster=choice.cluster, run_id=choice.run_id)
    )
    rows = [
        *(_interruption(row) for row in contents.interruptions),
        *(_incident(row) for row in contents.health if row["severity"] != "info"),
        *(_drain(row) for row in drains.iter_rows(named=True)),
        *_lost(executed),
    ]
    ordered = sorted(rows, key=lambda row: (row["begin"], row["kind"], row["text"]))
    steps = _steps_before(executed, [row["begin"] for row in ordered])
    return [{"kind": row["kind"], "step": step, **row} for row, step in zip(ordered, steps, strict=True)]


def _executed(reader: Reader, contents: RunContents, rules: Rules) -> pl.DataFrame:
    """Executions of its steps, as `metrics.runs.steps.executions_of_steps` returns them."""
    choice = contents.choice
    source: RowSource = OneRun(reader, choice.cluster, choice.run_id)
    if choice.logged_only:
        logged = read(reader, choice.cluster, choice.run_id)
        source = LogOnly(logged, choice.cluster, choice.run_id, rules, gpus=logged.gpus)
    _, executed = computed_logs(source, choice.cluster)
    return executed.filter(pl.col("run") == choice.run_id)


def _steps_before(executed: pl.DataFrame, moments: Sequence[datetime]) -> list[int | None]:
    """The last step that began before each of these moments, which are in order."""
    begun = executed.select("ts", "step").sort("ts")
    requested = pl.DataFrame({"ts": moments}, schema={"ts": begun.schema["ts"]})
    return requested.join_asof(begun, on="ts", strategy="backward", check_sortedness=False)["step"].to_list()


def _words(*parts: object) -> str:
    return " ".join(str(part) for part in parts if part)


def _interruption(row: Row) -> Row:
    cause = str(row["cause"]).replace("_", " ")
    return {
        "kind": "interruption",
        "begin": row["ended_at"],
        "end": None,
        "text": _words(cause, row["node"] and f"on {row['node']}"),
        "node": row["node"],
        **{name: row[name] for name in ("attempt_no", "state", "class", "cause", "detail", "cost_gpu_s")},
    }


def _incident(row: Row) -> Row:
    kinds = row["kinds"] if isinstance(row["kinds"], str) else ", ".join(map(str, row["kinds"]))
    return {
        "kind": "incident",
        "begin": row["started_at"],
        "end": row["ended_at"],
        "text": _words(row["severity"], kinds, f"on {row['node']}"),
        **{name: row[name] for name in ("node", "severity", "kinds", "gpus", "at_end")},
    }


def _drain(row: Row) -> Row:
    return {
        "kind": "down" if row["state"] == "down" else "drain",
        "begin": row["started_at"],
        "end": row["ended_at"],
        "text": _words(row["node"], row["state"], row["reason"] and f"({row['reason']})"),
        **{name: row[name] for name in ("node", "state", "state_raw", "reason", "planned")},
    }


def _lost(executed: pl.DataFrame) -> Iterable[Row]:
    """Steps of an attempt that were executed again later."""
    again = executed.filter(~pl.col("kept"))
    spans = again.group_by("scheduler", "job_id", "submitted_at", "session").agg(
        begin=pl.col("ts").min(),
        end=pl.from_epoch(pl.col("end").max(), time_unit="us").dt.replace_time_zone("UTC"),
        first=pl.col("step").min(),
        last=pl.col("step").max(),
        n=pl.len(),
        lost_s=pl.col("wall_s").sum(),
    )
    for row in spans.iter_rows(named=True):
        yield {
            "kind": "lost_steps",
            "begin": row["begin"],
            "end": row["end"],
            "text": f"steps {row['first']} to {row['last']} were executed again",
            "node": None,
            **{name: row[name] for name in ("first", "last", "n", "lost_s")},
        }


def as_lines(events: Iterable[Row]) -> str:
    """One JSON object a line."""
    return "".join(as_json(event, compact=True) + "\n" for event in events)


def as_program(run_id: str, events: Sequence[Row]) -> str:
    """A Python file that draws the events into a run of Weights & Biases."""
    return _PROGRAM.format(run=ascii(run_id), events=ascii(as_lines(events)))


def written(path: str, run_id: str, events: Sequence[Row]) -> bytes:
    """What a file of this name is to hold: a program if it ends in `.py`, else one JSON object a line."""
    return (as_program(run_id, events) if path.endswith(".py") else as_lines(events)).encode()


_PROGRAM: Final = '''\
"""Draws what happened to a training run into its charts at Weights & Biases.

    python FILE.py ENTITY/PROJECT/RUN_ID [NAME OF THE STEP]

Each kind of event is a series of ones (infrastructure/interruption, ...) over the step in which it happened; all of
them are in the table infrastructure/events, too. With the name of the metric that counts steps (train/global_step),
they lie on that axis.
"""

import json
import sys

RUN = {run}
EVENTS = [json.loads(line) for line in {events}.splitlines()]
COLUMNS = ["kind", "step", "begin", "end", "node", "text"]


def draw(path, axis="infrastructure/step"):
    """Log the events to a run: its path, and the metric that counts its steps."""
    import wandb

    entity, project, run_id = ([None, None] + path.split("/"))[-3:]
    run = wandb.init(entity=entity, project=project, id=run_id, resume="allow")
    run.define_metric(axis)
    run.define_metric("infrastructure/*", step_metric=axis)
    for event in EVENTS:
        if event["step"] is not None:
            run.log({{"infrastructure/" + event["kind"]: 1, axis: event["step"]}})
    rows = [[event[name] for name in COLUMNS] for event in EVENTS]
    run.log({{"infrastructure/events": wandb.Table(columns=COLUMNS, data=rows)}})
    run.finish()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    draw(*sys.argv[1:3])
'''
