"""Published metrics of nodes."""

from metrics.catalog.entry import Metric

METRICS = (
    Metric(
        "lemon_q",
        "ratio",
        "How likely a node that failed so often is no worse than the others, all nodes looked at together.",
        "p: upper tail of Poisson(rate of the other nodes x its GPU-days) at its incidents, not below the exact "
        "binomial tail given the total; q: p adjusted by Benjamini-Hochberg over all nodes. lemon: q < 0.05, 3 or more "
        "in 28 days, and hardware events or unplanned leaving of service agree (more than of the others, p < 0.05); "
        "suspect: job failures alone",
        "node_exposure",
        "metrics.failures.lemons.lemon_nodes",
        "a test, no interval: false discovery rate 5 %; detectable_factor is what would be seen in 8 of 10 cases",
        "our definitions 7.4; Kokolis et al. (HPCA 2025) section IV; Benjamini and Hochberg 1995",
    ),
    Metric(
        "node_failure_rate_eb",
        "1/gpu_d",
        "A node's failure rate, drawn towards the cluster's as far as chance suggests: what nodes are ranked by.",
        "(failures + 1/n of each that names no node + alpha) / (GPU-days that attempts ran on it + beta); alpha and "
        "beta by moments of the negative binomial",
        "node_exposure",
        "metrics.failures.lemons.shrunken",
        "none: for ranking",
        "our definitions 7.4; Marshall, Applied Statistics 40, 1991",
    ),
)
