"""Numbers for a cluster and a window: named query -> metric -> rows. The one road to every figure.

`compute` stores what these functions return for the standard windows; `show` and `verify` call them for any other.
So one figure is one number wherever it is seen.
"""

from app.results.base import CLAIMED_GPUS, DAY_S, Source, Window, as_results, ledger_sums, named, seed
from app.results.ettr import ettr_rows, ettr_run_rows, long_enough
from app.results.failures import failure_rate_rows
from app.results.goodput import goodput_rows, lost_imputed_rows, lost_rows
from app.results.interruptions import interruption_costs, node_failures, priced_interruptions, restart_rows
from app.results.mfu import flop_convention, mfu_rows, mfu_run_rows, step_mfu_rows, steps_without_mfu
from app.results.runs import resolve_run, run_steps, run_timeline

__all__ = [
    "CLAIMED_GPUS",
    "DAY_S",
    "Source",
    "Window",
    "as_results",
    "ettr_rows",
    "ettr_run_rows",
    "failure_rate_rows",
    "flop_convention",
    "goodput_rows",
    "interruption_costs",
    "ledger_sums",
    "long_enough",
    "lost_imputed_rows",
    "lost_rows",
    "mfu_rows",
    "mfu_run_rows",
    "named",
    "node_failures",
    "priced_interruptions",
    "resolve_run",
    "restart_rows",
    "run_steps",
    "run_timeline",
    "seed",
    "step_mfu_rows",
    "steps_without_mfu",
]
