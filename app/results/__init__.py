"""Numbers for a cluster and a window: named query -> metric -> rows. The one road to every figure.

`compute` stores what these functions return for the standard windows; `show` and `verify` call them for any other.
So one figure is one number wherever it is seen.
"""

from app.results.checkpoints import checkpoint_rows, pooled_rate, stored_checkpoint_advice
from app.results.ettr import (
    MEAN,
    ettr_rows,
    ettr_run_rows,
    expected_rows,
    expected_run_rows,
    long_enough,
    run_stretches,
    run_times,
)
from app.results.failures import (
    failure_history,
    failure_rate_rows,
    failure_rate_tables,
    failure_rates_of,
    hazard_rows,
    reference_rows,
    size_law_rows,
)
from app.results.goodput import goodput_rows, lost_imputed_rows, lost_rows, mpg_rows
from app.results.interruptions import (
    every_restart,
    interruption_costs,
    interruptions_by,
    node_failures,
    orders_of_loss,
    priced_interruptions,
    restart_rows,
    second_order_rows,
)
from app.results.job_goodput import JobAccounts, bucket_rows, job_accounts, job_goodput_rows, job_goodput_run_rows
from app.results.lemons import excluded_nodes, judged, node_score_rows, stored_node_scores
from app.results.mfu import (
    allocated_to_runs,
    fleet_row,
    flop_convention,
    kept_steps,
    mfu_rows,
    mfu_run_rows,
    mfu_wall_rows,
    mfu_wall_run_rows,
    step_mfu_rows,
    steps_without_mfu,
)
from app.results.mfu_proxy import estimate_run_rows, mfu_estimated_rows, mfu_proxy
from app.results.run_metrics import run_metric_rows
from app.results.runs import resolve_run, run_steps, run_timeline
from app.results.waste import limit_rows, state_rows, waste_flags, waste_rows
from app.results.windows import CLAIMED_GPUS, Source, Window, as_results, ledger_sums, named, seed

__all__ = [
    "CLAIMED_GPUS",
    "MEAN",
    "JobAccounts",
    "Source",
    "Window",
    "allocated_to_runs",
    "as_results",
    "bucket_rows",
    "checkpoint_rows",
    "estimate_run_rows",
    "ettr_rows",
    "ettr_run_rows",
    "every_restart",
    "excluded_nodes",
    "expected_rows",
    "expected_run_rows",
    "failure_history",
    "failure_rate_rows",
    "failure_rate_tables",
    "failure_rates_of",
    "fleet_row",
    "flop_convention",
    "goodput_rows",
    "hazard_rows",
    "interruption_costs",
    "interruptions_by",
    "job_accounts",
    "job_goodput_rows",
    "job_goodput_run_rows",
    "judged",
    "kept_steps",
    "ledger_sums",
    "limit_rows",
    "long_enough",
    "lost_imputed_rows",
    "lost_rows",
    "mfu_estimated_rows",
    "mfu_proxy",
    "mfu_rows",
    "mfu_run_rows",
    "mfu_wall_rows",
    "mfu_wall_run_rows",
    "mpg_rows",
    "named",
    "node_failures",
    "node_score_rows",
    "orders_of_loss",
    "pooled_rate",
    "priced_interruptions",
    "reference_rows",
    "resolve_run",
    "restart_rows",
    "run_metric_rows",
    "run_steps",
    "run_stretches",
    "run_timeline",
    "run_times",
    "second_order_rows",
    "seed",
    "size_law_rows",
    "state_rows",
    "step_mfu_rows",
    "steps_without_mfu",
    "stored_checkpoint_advice",
    "stored_node_scores",
    "waste_flags",
    "waste_rows",
]
