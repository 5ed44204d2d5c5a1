"""The SQL board of runs: which there were, what interrupted them, how long they took to come back, as known today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana, palette
from dashboards.grafana import fixed, override, sql
from dashboards.parts import BAD, CANNOT_TELL, PLAIN, board
from dashboards.sql_parts import CLUSTERS, NOTHING, SINCE, TODAY, UNTIL, chosen, clusters, counted, source, table
from dashboards.sql_parts import within as in_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

UID: Final = "trackside-sql-runs"

_OWNER: Final = '"user" IN (${user:sqlstring}) AND "partition" IN (${partition:sqlstring})'
_RUNS: Final = f"""\
FROM runs
WHERE {CLUSTERS} AND {_OWNER}
  AND started_at < {UNTIL} AND (ended_at IS NULL OR ended_at >= {SINCE})"""
_INTERRUPTIONS: Final = f"""\
FROM interruptions AS i
JOIN runs AS r ON i.cluster = r.cluster AND i.run = r.run
WHERE i.{CLUSTERS} AND r."user" IN (${{user:sqlstring}}) AND r."partition" IN (${{partition:sqlstring}})
  AND {in_range("i.ended_at")}"""
_RESTARTS: Final = f"FROM restarts\nWHERE {CLUSTERS} AND {in_range('interrupted_at')}"
_TIME: Final = {"unit": "dateTimeAsIso", "min": None}


def runs(_: Mapping[str, tuple[float, ...]]) -> Json:
    """The board as JSON. No claim is on a number of it."""
    return board(
        "Trackside SQL: runs as known today",
        UID,
        "Which runs were there, what interrupted them, and how long did they take to come back, as known today?",
        tags=("duckdb", "reliability", "runs"),
        source=source(),
        variables=[
            clusters(),
            chosen("user", "User", f'SELECT DISTINCT "user" FROM runs WHERE {CLUSTERS} ORDER BY "user"'),
            chosen("partition", "Partition", f'SELECT DISTINCT "partition" FROM runs WHERE {CLUSTERS} ORDER BY 1'),
        ],
        panels=[
            grafana.row("In the time range of the board"),
            *_counts(),
            *_days(),
            grafana.row("Runs"),
            _table_of_runs(),
            grafana.row("Interruptions and restarts"),
            *_interruptions(),
            grafana.row("Nodes"),
            *_nodes(),
        ],
        since="now-30d",
    )


def _counts() -> list[Any]:
    of_restarts = f'SELECT cluster, AVG(time_to_recover_s) AS "time"\n{_RESTARTS}\nGROUP BY 1\nORDER BY 1'
    return [
        counted(
            "Runs",
            f"Runs that held nodes in the range, of the chosen users and partitions. {TODAY}",
            f'SELECT cluster, COUNT(*) AS "runs"\n{_RUNS}\nGROUP BY 1\nORDER BY 1',
            width=6,
        ),
        counted(
            "GPU-hours of these runs",
            "GPU-hours that these runs held, over their whole life.",
            f'SELECT cluster, SUM(allocated_gpu_s) / 3600 AS "GPU-hours"\n{_RUNS}\nGROUP BY 1\nORDER BY 1',
            width=6,
            no_value=CANNOT_TELL,
        ),
        counted(
            "Interruptions",
            "Attempts of runs that ended early in the range, whatever ended them.",
            f'SELECT i.cluster, COUNT(*) AS "interruptions"\n{_INTERRUPTIONS}\nGROUP BY 1\nORDER BY 1',
            width=6,
        ),
        counted(
            "Time to recover",
            "Mean time from an interruption until the run was as far as before, of the restarts that have run logs or "
            "checkpoints to show it. Of all users.",
            of_restarts,
            width=6,
            unit="s",
            decimals=1,
            no_value=CANNOT_TELL,
        ),
    ]


def _days() -> list[Any]:
    bars = {"drawStyle": "bars", "fillOpacity": 80, "lineWidth": 0, "stacking": {"group": "A", "mode": "normal"}}
    look: dict[str, Any] = {"size": (12, 8), "unit": "short", "decimals": 0, "min": 0, "no_value": NOTHING}
    return [
        grafana.time_series(
            "Interruptions by day and class",
            "How many attempts ended early, by what ended them: infrastructure is the machine's.",
            [
                sql(
                    "SELECT date_trunc('day', i.ended_at) AS time, i.class, COUNT(*) AS \"Value\"\n"
                    f"{_INTERRUPTIONS}\nGROUP BY 1, 2\nORDER BY 1, 2",
                    series=True,
                )
            ],
            custom=bars,
            overrides=[override(name, color=fixed(colour)) for name, colour in palette.CLASS_COLOURS.items()],
            **look,
        ),
        grafana.time_series(
            "Runs that began, by day and state",
            "Runs by the day of their first start, and the state that they are in today.",
            [
                sql(
                    "SELECT date_trunc('day', started_at) AS time, state, COUNT(*) AS \"Value\"\n"
                    f"{_RUNS}\n  AND started_at >= {SINCE}\nGROUP BY 1, 2\nORDER BY 1, 2",
                    series=True,
                )
            ],
            custom=bars,
            **look,
        ),
    ]


def _table_of_runs() -> Any:
    ratio = {"unit": "percentunit", "decimals": 1, "max": 1}
    return table(
        "Runs that held most",
        "The 200 runs with most GPU-hours. ETTR is over the run's whole life, with its bounds: all unobserved time "
        "counted unproductive and productive. An empty cell is unknown.",
        f"""\
SELECT cluster, run, name, "user", "partition", state, gpus AS "GPUs", attempts, started_at AS "started",
    ended_at AS "ended", allocated_gpu_s / 3600 AS "GPU-hours", ettr AS "ETTR", ettr_low AS "at least",
    ettr_high AS "at most"
{_RUNS}
ORDER BY allocated_gpu_s DESC NULLS LAST
LIMIT 200""",
        runs=True,
        size=(24, 11),
        overrides=[
            *(override(name, **_TIME) for name in ("started", "ended")),
            *(override(name, **ratio) for name in ("ETTR", "at least", "at most")),
        ],
    )


def _interruptions() -> list[Any]:
    seconds = {"unit": "s", "decimals": 1}
    return [
        table(
            "Interruptions by cause",
            "How often, and what the attempts held: causes as the ledger names them.",
            f"""\
SELECT i.cluster, i.class, i.cause, COUNT(*) AS "interruptions", SUM(i.gpus) AS "GPUs in all"
{_INTERRUPTIONS}
GROUP BY 1, 2, 3
ORDER BY 4 DESC
LIMIT 50""",
            size=(9, 9),
        ),
        table(
            "Restarts by cause",
            "Mean times after an interruption: until it was seen, in the queue, until the job ran again, until the "
            "first step, until it was as far as before. An empty cell: no record of it. Of all users.",
            f"""\
SELECT cluster, cause, COUNT(*) AS "restarts", AVG(time_to_detect_s) AS "detect", AVG(queue_s) AS "queue",
    AVG(time_to_job_restart_s) AS "job restart", AVG(time_to_first_step_s) AS "first step",
    AVG(time_to_recover_s) AS "recover"
{_RESTARTS}
GROUP BY 1, 2
ORDER BY 3 DESC
LIMIT 50""",
            size=(15, 9),
            overrides=[override(n, **seconds) for n in ("detect", "queue", "job restart", "first step", "recover")],
        ),
        table(
            "Newest interruptions",
            "The newest 200, each with its cause and evidence.",
            f"""\
SELECT i.ended_at AS "time", i.cluster, i.run, r."user", i.class, i.cause, i.node, i.gpus AS "GPUs", i.evidence,
    i.detail
{_INTERRUPTIONS}
ORDER BY 1 DESC
LIMIT 200""",
            runs=True,
            size=(24, 9),
            overrides=[override("time", **_TIME)],
        ),
    ]


def _nodes() -> list[Any]:
    return [
        table(
            "Nodes that fail more than by chance",
            "Failures that are charged to a node within the last 28 days of the data, and how many chance would have "
            "given it. Drain them: trackside show lemons names the evidence.",
            f"""\
WITH last_judged AS (
    SELECT n.cluster, MIN(n.window_from) AS window_from, n.window_until
    FROM nodes AS n
    JOIN windows AS w ON n.cluster = w.cluster AND n.window_until = w.window_until AND w."window" = 'all'
    GROUP BY n.cluster, n.window_until
)
SELECT n.cluster, n.node, n.verdict, n.failures, n.expected, n.q_value AS "q", n.times_out AS "times out"
FROM nodes AS n
JOIN last_judged AS l ON n.cluster = l.cluster AND n.window_from = l.window_from AND n.window_until = l.window_until
WHERE n.{CLUSTERS} AND n.verdict <> 'none'
ORDER BY n.failures DESC""",
            size=(12, 9),
            no_value="no node fails more than by chance",
            overrides=[
                override("verdict", color=fixed(BAD)),
                override("expected", decimals=2),
                override("q", decimals=4, color=fixed(PLAIN)),
            ],
        ),
        table(
            "Newest incidents",
            "Health events of a node that belong together, with the advice of the driver's catalogue.",
            f"""\
SELECT started_at AS "time", cluster, node, severity, kinds, action, attempts
FROM incidents
WHERE {CLUSTERS} AND {in_range("started_at")}
ORDER BY 1 DESC
LIMIT 200""",
            size=(12, 9),
            overrides=[override("time", **_TIME)],
        ),
    ]


BOARD = runs
