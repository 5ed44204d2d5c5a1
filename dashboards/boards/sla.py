"""The SLA board: is each claim met this month, and how much of the error budget is left?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dashboards import grafana, palette
from dashboards.grafana import fixed, instant, override, ranged, rows, steps
from dashboards.numbers import course, known_now, stat
from dashboards.parts import BAD, CANNOT_TELL, GOOD, HISTORY, MIDDLING, PLAIN, board, chosen, exported
from metrics.units import DAY_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dashboards.grafana import Json

UID: Final = "trackside-sla"

MONTH: Final = {"window": "month"}
_RATIO: Final[dict[str, Any]] = {"unit": "percentunit", "decimals": 1, "min": 0, "max": 1, "no_value": CANNOT_TELL}
_COUNT: Final[dict[str, Any]] = {"unit": "locale", "decimals": 0, "min": 0, "no_value": "no claims"}
_VERDICTS: Final = grafana.value_map(
    {"1": ("supported", GOOD), "0": ("undetermined", MIDDLING), "-1": ("refuted", BAD)},
)
CHOSEN: Final = 'claim=~"$claim"'
_OF_MONTH: Final = "Of the calendar month (UTC) that the data end in, so far."


def sla(targets: Mapping[str, tuple[float, ...]]) -> Json:
    """The board as JSON.

    Args:
        targets: what claims name; the strictest goodput is what the budget is of.
    """
    return board(
        "Trackside: SLA month",
        UID,
        "Is each claim met this month, and how much of the error budget is left?",
        tags=("claims", "goodput", "sla"),
        variables=[
            chosen("cluster", "Cluster", "trackside_verdict"),
            chosen("claim", "Claim", 'trackside_verdict{cluster=~"$cluster", window="month"}'),
        ],
        panels=[
            grafana.row("The month"),
            *_verdicts(),
            grafana.row("Claims"),
            _claims(),
            *_course(),
            grafana.row("Error budget of goodput"),
            *_budget(targets),
        ],
        since="now-30d",
    )


def verdict() -> str:
    """Verdicts of the month on the chosen claims."""
    return exported("verdict", but=CHOSEN, **MONTH)


def _verdicts() -> list[Any]:
    colours = {"supported": (1, GOOD), "undetermined": (0, MIDDLING), "refuted": (-1, BAD)}
    words = {
        "supported": "The whole interval of the number meets the target.",
        "undetermined": "The target lies within the interval of the number: evidence or events are missing. "
        "What would decide: trackside verify --explain.",
        "refuted": "The whole interval of the number misses the target, with all that is unobserved in its favour.",
    }
    return [
        *(
            stat(
                f"Claims {word}",
                f"{words[word]} {_OF_MONTH}",
                [ranged(f"sum by (cluster) ({known_now(verdict())} == bool {value})", "{{cluster}}")],
                size=(4, 4),
                thresholds=steps(PLAIN, (1, color)),
                **_COUNT,
            )
            for word, (value, color) in colours.items()
        ),
        stat(
            "Goodput of the month",
            f"Productive / allocated GPU-time. {_OF_MONTH} Its bounds: below.",
            course("goodput_ratio", of="allocated", bound="point", **MONTH),
            size=(4, 4),
            color=fixed(PLAIN),
            **_RATIO,
        ),
        stat(
            "ETTR of the month",
            f"Time that runs trained / time that they were queued or scheduled. {_OF_MONTH}",
            course("ettr_ratio", bound="point", **MONTH),
            size=(4, 4),
            color=fixed(PLAIN),
            **_RATIO,
        ),
        stat(
            "Month that is over",
            "Share of the calendar month that the data end in which they cover. A verdict on a month that is not "
            "over may still change: undetermined until the rest of it can no longer decide.",
            [ranged(f"max by (cluster) ({_elapsed()})", "{{cluster}}")],
            size=(4, 4),
            color=fixed(PLAIN),
            **{**_RATIO, "no_value": "no data"},
        ),
    ]


def _elapsed() -> str:
    """Share of the month that is over at the end of the data."""
    last = f"({exported('data_end_timestamp_seconds')} - 1)"  # data that end with a month are that month's
    hours = f"hour({last}) + (minute({last}) + 1) / 60"
    return f"(day_of_month({last}) - 1 + ({hours}) / 24) / days_in_month({last})"


def _claims() -> Any:
    value = partial(exported, "claim_value", but=CHOSEN, **MONTH)
    by = "cluster, claim, unit"
    columns = {
        "verdict": f"max by (cluster, claim, kind) ({verdict()})",
        "promised": f"max by ({by}, direction) ({exported('claim_target', but=CHOSEN)})",
        "measured": value(bound="point"),
        "from": value(bound="lower"),
        "to": value(bound="upper"),
    }
    return grafana.table(
        "Each claim, this month",
        "The promised value, the measured value, and the ends that decide the verdict, in the claim's own unit "
        f"(a ratio of 0.96 is 96 %). {_OF_MONTH} Without a measured value only its ends are known. The arithmetic: "
        "trackside verify --explain.",
        [rows(expr) for expr in columns.values()],
        size=(24, 9),
        unit="none",
        decimals=3,
        min=0,
        no_value=CANNOT_TELL,
        transformations=grafana.lines_of(columns, "cluster", "claim", "kind", "direction", "unit"),
        options={"sortBy": [{"displayName": "claim", "desc": False}]},
        overrides=[override("verdict", mappings=[_VERDICTS], custom_cellOptions={"type": "color-text"}, min=-1, max=1)],
    )


def _course() -> list[Any]:
    return [
        grafana.time_series(
            "Verdicts over the month",
            f"1 supported, 0 undetermined, -1 refuted: each claim, as of each moment. {HISTORY}",
            [ranged(verdict(), "{{cluster}} {{claim}}")],
            size=(12, 8),
            unit="none",
            decimals=0,
            min=-1,
            max=1,
            no_value="no claims",
            custom={"lineInterpolation": "stepAfter"},
        ),
        grafana.time_series(
            "Measured over promised",
            "Measured over promised value of each claim; the inverse for claims of which less is better (time to "
            f"restart). At 1 the promise is kept, below it is not. As of each moment. {HISTORY}",
            [
                ranged(_over_promised("at_least"), "{{cluster}} {{claim}}"),
                ranged(_over_promised("at_most"), "{{cluster}} {{claim}}"),
            ],
            size=(12, 8),
            unit="none",
            decimals=2,
            min=0,
            no_value=CANNOT_TELL,
        ),
    ]


def _over_promised(direction: str) -> str:
    by = "cluster, claim"
    value = f"max by ({by}) ({exported('claim_value', but=CHOSEN, bound='point', **MONTH)})"
    target = f"max by ({by}) ({exported('claim_target', but=CHOSEN, direction=direction)})"
    return f"{value} / {target}" if direction == "at_least" else f"{target} / ({value} > 0)"


def _budget(targets: Mapping[str, tuple[float, ...]]) -> list[Any]:
    """The error budget of this month and its lost part, by the strictest claim on goodput, or all lost time."""
    promised = max(targets.get("goodput_allocated", (1.0,)))
    budget = 1 - promised
    allocated = f"sum by (cluster) ({exported('gpu_seconds', state='allocated', **MONTH)})"
    lost = {
        "at least": f"(1 - {exported('goodput_ratio', of='allocated', bound='upper', **MONTH)})",
        "at most": f"(1 - {exported('goodput_ratio', of='allocated', bound='lower', **MONTH)})",
    }
    goal = f"Goodput of at least {promised:.1%} was claimed, so {budget:.1%} of the allocated GPU-time may be lost. "
    burnt = {called: f"{share} / {budget or 1:.6g}" for called, share in lost.items()}
    by_category = f"sum by (category) ({exported('gpu_lost_seconds', **MONTH)}) / 3600"
    return [
        stat(
            "Budget burnt, at least",
            f"{goal}The share of this budget that is lost, even if all unobserved time was productive. Above 100 %: "
            "the claim cannot hold for the time so far.",
            [ranged(known_now(burnt["at least"]), "{{cluster}}")],
            size=(6, 8),
            thresholds=steps(GOOD, (0.75, MIDDLING), (1, BAD)),
            **{**_RATIO, "max": 10},
        ),
        stat(
            "GPU-hours over the budget, at least",
            f"{goal}Allocated GPU-hours that were lost beyond this budget; below 0: the part of it that is left.",
            [ranged(f"{known_now(_over(lost['at least'], budget, allocated))}", "{{cluster}}")],
            size=(6, 8),
            thresholds=steps(GOOD, (0, BAD)),
            unit="short",
            decimals=1,
            min=-1e9,
            no_value=CANNOT_TELL,
        ),
        grafana.time_series(
            "Budget burnt over the month",
            f"{goal}Both ends of the burnt share, and the share of the month that is over: above that line it burns "
            f"too fast. {HISTORY}",
            [
                *(ranged(expr, f"{{{{cluster}}}} {called}") for called, expr in burnt.items()),
                ranged(f"max by (cluster) ({_elapsed()})", "{{cluster}} month over"),
            ],
            size=(12, 8),
            **{**_RATIO, "max": 10},
        ),
        grafana.bar_gauge(
            "What burns it: lost GPU-hours of the month, by category",
            "GPU-time of the month that could have trained and did not. Idle and unavailable categories are no part "
            "of the goodput of allocated: they are here because they are lost, too.",
            [instant(f"sort_desc({by_category})", "{{category}}")],
            size=(8, 8),
            unit="short",
            decimals=1,
            min=0,
            no_value="nothing lost",
            color=fixed(palette.swatch("lost").colour),
        ),
        grafana.time_series(
            "Failures and MTTF of the month",
            f"Mean time between failures by infrastructure of a job of 1,024 GPUs, of the month so far. {HISTORY}",
            [
                ranged(f"{exported('mttf_seconds', bound='point', **MONTH)} / {DAY_S:g}", "{{cluster}} MTTF, days"),
                ranged(exported("failures_observed", **MONTH, **{"class": "infrastructure"}), "{{cluster}} failures"),
            ],
            size=(8, 8),
            unit="short",
            decimals=1,
            min=0,
            no_value=CANNOT_TELL,
            overrides=[
                grafana.override_like("MTTF, days$", custom_axisPlacement="right", custom_axisLabel="MTTF, days")
            ],
        ),
        grafana.time_series(
            "Time to job restart of the month",
            f"Median, and the time within which 90 % were restarted, of the month so far. {HISTORY}",
            [
                ranged(exported("restart_seconds", statistic=name, **MONTH), f"{{{{cluster}}}} {name}")
                for name in ("median", "p90")
            ],
            size=(8, 8),
            unit="s",
            decimals=1,
            min=0,
            no_value=CANNOT_TELL,
        ),
    ]


def _over(lost: str, budget: float, allocated: str) -> str:
    return f"({lost} - {budget:.6g}) * on (cluster) {allocated} / 3600"


BOARD = sla
