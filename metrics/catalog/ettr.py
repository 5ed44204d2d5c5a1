"""Published metrics of the time that runs wanted."""

from metrics.catalog.entry import BOUNDS, Metric

_OVER_RUNS = f"{BOUNDS}; BCa bootstrap over whole runs, 95 %, if they weigh as much as 20 equal ones"
_MEAN = "each run has one vote, so small runs rule it: shown beside the GPU-time weighted ratio"
_EXPECTED = "metrics.ettr.expected.expected"
_META = "Kokolis et al. (HPCA 2025), expected ETTR"

METRICS = (
    Metric(
        "ettr",
        "ratio",
        "Of the time runs wanted to train, the share in which they did; queueing counts.",
        "productive GPU-seconds / (queued + scheduled) GPU-seconds of the runs, initial queue included; checkpoint "
        "writes that block training are unproductive (Meta v2)",
        "ledger_sums",
        "metrics.ettr.ettr.ettr_by_run",
        _OVER_RUNS,
        "Kokolis et al. (HPCA 2025) section II: ETTR = R / (Q + R + U)",
    ),
    Metric(
        "ettr_without_initial_queue",
        "ratio",
        "ETTR from the first start on.",
        "productive GPU-seconds / (queued after the first start + scheduled) GPU-seconds of the runs",
        "ledger_sums",
        "metrics.ettr.ettr.ettr_by_run",
        _OVER_RUNS,
        "as ettr, without the wait before the first start",
    ),
    Metric(
        "ettr_with_checkpoint_writes",
        "ratio",
        "ETTR with checkpoint writes counted as productive, as the first version of the paper does.",
        "(productive + checkpoint) GPU-seconds / (queued + scheduled) GPU-seconds of the runs, initial queue included",
        "ledger_sums",
        "metrics.ettr.ettr.ettr_by_run",
        _OVER_RUNS,
        "Kokolis et al., arXiv 2410.21680v1 section II: catch-up and restarts alone are unproductive",
    ),
    Metric(
        "ettr_mean_of_runs",
        "ratio",
        "Mean of the runs' own ETTR.",
        "sum over runs of the run's ettr / runs",
        "ledger_sums",
        "metrics.ettr.ettr.ettr_total",
        _OVER_RUNS,
        f"metric-definitions 7.3: {_MEAN}",
    ),
    Metric(
        "ettr_without_initial_queue_mean_of_runs",
        "ratio",
        "Mean of the runs' own ETTR from their first start on.",
        "sum over runs of the run's ettr_without_initial_queue / runs",
        "ledger_sums",
        "metrics.ettr.ettr.ettr_total",
        _OVER_RUNS,
        f"metric-definitions 7.3: {_MEAN}",
    ),
    Metric(
        "ettr_with_checkpoint_writes_mean_of_runs",
        "ratio",
        "Mean of the runs' own ETTR with checkpoint writes counted as productive.",
        "sum over runs of the run's ettr_with_checkpoint_writes / runs",
        "ledger_sums",
        "metrics.ettr.ettr.ettr_total",
        _OVER_RUNS,
        f"metric-definitions 7.3: {_MEAN}",
    ),
    Metric(
        "ettr_imputed",
        "ratio",
        "ETTR as Meta imputes it where nothing is logged: an assumption, not a measurement.",
        "sum of max(0, T - 5 min - 30 min) x GPUs over attempts / (queued + scheduled) GPU-seconds",
        "attempts",
        "metrics.ettr.ettr.imputed",
        "none: assumed",
        "Kokolis et al. (HPCA 2025) section IV: dt = 60 min, u0 = 5 min for every attempt",
    ),
    Metric(
        "ettr_expected",
        "ratio",
        "ETTR that runs are to be expected to have at the measured failure rate, restart, checkpoint and queue times.",
        "of each run: the exact form where lambda (u0 + dt/2) > 0.1, else that of a finite run; mean over runs, "
        "weighted by their queued + scheduled GPU-seconds",
        "ledger_sums",
        _EXPECTED,
        "at both ends of the exact 95 % interval of the cluster's failure rate",
        f"{_META}; metric-definitions 1.5",
    ),
    Metric(
        "ettr_expected_closed_form",
        "ratio",
        "Expected ETTR by the published closed form, in which queueing is not.",
        "(1 - lambda (u0 + dt/2)) / (1 + w/dt), weighted over runs as ettr_expected",
        "ledger_sums",
        _EXPECTED,
        "none: ettr_expected has one",
        f"{_META}, version 2",
    ),
    Metric(
        "ettr_expected_with_queue",
        "ratio",
        "Expected ETTR of long runs that queue again after every failure.",
        "(1 - lambda (u0 + dt/2)) / ((1 + lambda q) (1 + w/dt)), weighted over runs as ettr_expected",
        "ledger_sums",
        _EXPECTED,
        "none: ettr_expected has one",
        f"derived from the definitions of {_META}, version 1; metric-definitions 1.5",
    ),
    Metric(
        "ettr_expected_finite",
        "ratio",
        "Expected ETTR of runs of the productive time that was measured, first start and first queue included.",
        "R / W / (1 + w/dt), S = (R + u0) / (1 - lambda (u0 + dt/2)), W = S (1 + lambda q) + q; weighted as "
        "ettr_expected",
        "ledger_sums",
        _EXPECTED,
        "none: ettr_expected has one",
        f"derived from the definitions of {_META}, version 1; metric-definitions 1.5",
    ),
    Metric(
        "ettr_expected_exact",
        "ratio",
        "Expected ETTR of long runs under exponential failures, at any failure rate.",
        "dt exp(-lambda u0) / ((exp(lambda (dt + w)) - 1) (1/lambda + q)), weighted over runs as ettr_expected",
        "ledger_sums",
        _EXPECTED,
        "none: ettr_expected has one",
        "our derivation, metric-definitions 1.5; checked by simulation in tests/metrics/test_theory.py",
    ),
)
