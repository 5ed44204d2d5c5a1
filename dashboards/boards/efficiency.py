"""The efficiency board: how well are allocated GPUs used, and whose are not?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana, palette
from dashboards.boards.jobs import IDLE_SHARE
from dashboards.exported_metrics import MAX_USERS
from dashboards.grafana import fixed, instant, override, ranged, rows, steps
from dashboards.numbers import BY_INTERVAL, COURSE, at_least, bounded, course, stat
from dashboards.parts import BAD, CANNOT_TELL, GOOD, HISTORY, MIDDLING, PLAIN, UNSEEN, board, chosen, exported, window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

UID: Final = "trackside-efficiency"

_RATIO: Final[dict[str, Any]] = {"unit": "percentunit", "decimals": 1, "min": 0, "max": 1}
_HOURS: Final[dict[str, Any]] = {"unit": "short", "decimals": 1, "min": 0, "no_value": "nothing that was seen"}
_IDLE: Final = palette.swatch("stalled").colour
WASTE: Final = (
    "Idle: no work, and no failure that explains it. Unused GPUs: never used. Never stepped: no step was seen. Failed "
    "at once: three times in a row within ten minutes. Short of limit: done within a quarter of the time limit, at "
    "maximum: of the most that its partition allows. Kinds overlap."
)


def efficiency(targets: Mapping[str, tuple[float, ...]]) -> Json:
    """The board as JSON.

    Args:
        targets: what claims name; the strictest MFU decides what is green.
    """
    return board(
        "Trackside: efficiency and MFU",
        UID,
        "How well are allocated GPUs used, and whose are not?",
        tags=("gpu", "mfu", "waste"),
        variables=[
            chosen("cluster", "Cluster", "trackside_data_end_timestamp_seconds"),
            window(),
            chosen("account", "Account", 'trackside_held_gpu_seconds{cluster=~"$cluster"}'),
            chosen("user", "User", 'trackside_held_gpu_seconds{cluster=~"$cluster", account=~"$account"}'),
        ],
        panels=[
            grafana.row("How well"),
            *_now(targets),
            *_over_time(),
            grafana.row("Who holds GPU-time that shows no work"),
            *_waste(),
        ],
        since="now-7d",
    )


def _live(ratio: str) -> str:
    """A mean over the GPUs that the chosen jobs hold and that telemetry covers."""
    where = 'cluster=~"$cluster", user=~"$user", account=~"$account"'
    held, observed = (f"sum by (cluster) (trackside:job:{name}{{{where}}})" for name in (ratio, "observed_gpus"))
    return f"{held} / {observed}"


def _now(targets: Mapping[str, tuple[float, ...]]) -> list[Any]:
    live = partial(grafana.stat, size=(4, 4), options=COURSE, no_value=UNSEEN, **_RATIO)
    return [
        *bounded(
            "MFU",
            "Model FLOP utilisation over kept steps, of the dense peak of the data type: FLOP of the model per "
            "second / peak. It needs run logs. Below the claim: batch size, data type, stragglers; trackside show "
            "mfu.",
            "mfu_ratio",
            ends=BY_INTERVAL,
            thresholds=at_least(targets, "mfu"),
            **_RATIO,
        ),
        stat(
            "Occupancy",
            "Share of all GPU-time that was allocated to jobs. The rest: the boards of Slurm and of topology.",
            course("occupancy_ratio"),
            size=(6, 4),
            color=fixed(PLAIN),
            no_value=CANNOT_TELL,
            **_RATIO,
        ),
        live(
            "Busy, now",
            "Mean activity of the held GPUs: share of the time in which the graphics engine, or else any kernel, was "
            "active. Live, from the exporters. It shows that something ran, not that it ran well.",
            [ranged(_live("busy_gpus"), "{{cluster}}")],
            color=fixed(PLAIN),
        ),
        live(
            "Tensor cores active, now",
            "Mean share of the cycles in which the tensor pipes of the held GPUs were active. Live. It is no MFU: "
            "pipes are active for work that is no model's, too.",
            [ranged(_live("tensor_gpus"), "{{cluster}}")],
            color=fixed(PLAIN),
        ),
        live(
            "Idle while held, now",
            "Share of the held GPUs that do nothing, at least. Live. Whose: the board of jobs.",
            [ranged(_live("idle_gpus"), "{{cluster}}")],
            thresholds=steps(GOOD, (IDLE_SHARE[0], MIDDLING), (IDLE_SHARE[1], BAD)),
        ),
    ]


def _over_time() -> list[Any]:
    line: dict[str, Any] = {**_RATIO, "size": (8, 8)}
    ends = {"point": "", "lower": " from", "upper": " to"}
    live = {"busy": "busy_gpus", "tensor cores": "tensor_gpus", "idle": "idle_gpus"}
    return [
        grafana.time_series(
            "MFU over time",
            f"The MFU of the chosen window and its 95 % interval, as of each moment. {HISTORY}",
            [ranged(exported("mfu_ratio", bound=bound), f"{{{{cluster}}}}{called}") for bound, called in ends.items()],
            no_value=CANNOT_TELL,
            **line,
        ),
        grafana.time_series(
            "Use of held GPUs over time",
            "Activity, tensor activity and idleness of the GPUs that jobs hold. Live, from the exporters; the means "
            "are over the GPUs that telemetry covers.",
            [ranged(_live(name), f"{{{{cluster}}}} {called}") for called, name in live.items()],
            no_value=UNSEEN,
            **line,
        ),
        grafana.time_series(
            "Occupancy and availability over time",
            f"Shares of all GPU-time of the chosen window: allocated to jobs, and in service. {HISTORY}",
            [
                ranged(exported("occupancy_ratio"), "{{cluster}} allocated"),
                ranged(exported("availability_ratio", bound="point"), "{{cluster}} in service"),
            ],
            no_value=CANNOT_TELL,
            **line,
        ),
    ]


_WHO: Final = 'user=~"$user", account=~"$account"'


def _waste() -> list[Any]:
    waste, held = exported("waste_gpu_seconds", but=_WHO), exported("held_gpu_seconds", but=_WHO)
    by = "cluster, account, user"
    of_kind = {
        kind: f"max by ({by}) ({exported('waste_gpu_seconds', but=_WHO, kind=name)}) / on ({by}) {held}"
        for kind, name in {
            "idle": "idle",
            "never stepped": "never_stepped",
            "failed at once": "failed_at_once",
            "short of limit": "short_of_limit",
        }.items()
    }
    idle = exported("waste_gpu_seconds", but=_WHO, kind="idle")
    columns = {"GPU-hours": f"{held} / 3600", **of_kind}
    return [
        grafana.bar_gauge(
            "GPU-hours that show no work, by kind",
            f"Of the chosen users. {WASTE} trackside show waste has the bounds.",
            [instant(f"sort_desc(sum by (kind) ({waste})) / 3600", "{{kind}}")],
            size=(8, 9),
            color=fixed(_IDLE),
            **_HOURS,
        ),
        grafana.bar_gauge(
            "Idle GPU-hours, by user",
            "GPU-time that was held and idle, without a failure that explains it: the twelve users with most.",
            [
                instant(f"sort_desc(topk(12, sum by (cluster, user) ({idle}))) / 3600", "{{cluster}} {{user}}"),
            ],
            size=(8, 9),
            color=fixed(_IDLE),
            **_HOURS,
        ),
        grafana.bar_gauge(
            "GPU-hours held, by account",
            "GPU-time that was allocated, by account of the users.",
            [instant(f"sort_desc(topk(12, sum by (cluster, account) ({held}))) / 3600", "{{cluster}} {{account}}")],
            size=(8, 9),
            color=fixed(palette.swatch("productive").colour),
            **{**_HOURS, "no_value": "nothing allocated"},
        ),
        grafana.table(
            "Users: GPU-hours held, and the share that shows no work",
            f"The {MAX_USERS} users that held most, the largest first. An empty cell: none was seen. {WASTE}",
            [rows(expr) for expr in columns.values()],
            size=(14, 10),
            transformations=grafana.lines_of(columns, "cluster", "account", "user"),
            options={"sortBy": [{"displayName": "GPU-hours", "desc": True}]},
            overrides=[override("GPU-hours", unit="short", max=None)],
            no_value="none seen",
            **_RATIO,
        ),
        grafana.time_series(
            "Idle GPU-hours over time, by account",
            f"Idle GPU-time of the chosen window, by account, as of each moment. {HISTORY}",
            [
                ranged(
                    f"sum by (cluster, account) ({idle}) / 3600",
                    "{{cluster}} {{account}}",
                )
            ],
            size=(10, 10),
            **_HOURS,
        ),
    ]


BOARD = efficiency
