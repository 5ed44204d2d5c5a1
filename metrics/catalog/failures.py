"""Published metrics of failure rates."""

from metrics.catalog.entry import Metric

METRICS = (
    Metric(
        "mttf",
        "d",
        "Mean time to failure of a job, by size and pooled.",
        "exposure of all attempts, censored ones included / interruptions of the class; exposure is the time that they "
        "ran in the window, without suspended time, which is taken to lie at their ends",
        "exposures",
        "metrics.failures.rates.failure_rates",
        "exact Poisson, 95 %, of k/phi in T/phi where failures cluster; Jeffreys beside it for the rate",
        "Kokolis et al. (HPCA 2025) section III; Garwood 1936",
    ),
    Metric(
        "failure_rate",
        "1/gpu_d",
        "Failures per GPU-day, by class, way of counting and job size.",
        "interruptions of the class (attempts), or of different incidents / GPU-days that all attempts ran in the "
        "window, suspended time left out",
        "exposures",
        "metrics.failures.rates.rates_in",
        "exact Poisson, 95 %, of k/phi in T/phi where failures cluster; Jeffreys beside it",
        "Kokolis et al. (HPCA 2025) section III; Garwood 1936; Brown, Cai and DasGupta 2003",
    ),
    Metric(
        "failure_phi",
        "ratio",
        "How much more the daily counts of failures vary than chance would have them.",
        "Pearson's chi-squared of the counts per UTC day with GPU-days as offset / (days with exposure - 1)",
        "exposures",
        "metrics.statistics.overdispersion",
        "none; p from chi-squared, below 0.05 intervals of the rate are of k/phi in T/phi",
        "McCullagh and Nelder 1989, section 6.2.3",
    ),
    Metric(
        "size_law",
        "ratio",
        "Power of a job's GPUs that its failure rate grows with; 1 is the 1/N law.",
        "b of log rate = a + b log GPUs, Poisson regression of interrupted attempts with job-days as offset",
        "exposures",
        "metrics.failures.size_law.size_law",
        "profile likelihood, 95 %, widened by phi; extrapolated without a caveat only if it includes 1 and half of it "
        "is below 0.25",
        "our definitions 7.1; McCullagh and Nelder 1989, chapters 6 and 9",
    ),
    Metric(
        "survival",
        "ratio",
        "Share of attempts not interrupted by an age, were nothing else to end them.",
        "product over ages of 1 - interruptions / attempts under observation, entering late where the window cuts",
        "exposures",
        "metrics.failures.survival.kaplan_meier",
        "Greenwood on the log-log scale, 95 %",
        "Kaplan and Meier 1958; Klein and Moeschberger 2003, section 4.6",
    ),
    Metric(
        "cumulative_incidence",
        "ratio",
        "Share of attempts that a cause has ended by an age, beside all other causes.",
        "sum over ages of survival of all causes just before x ends by the cause / attempts under observation",
        "exposures",
        "metrics.failures.survival.cumulative_incidence",
        "delta method on the log-log scale, 95 %",
        "Aalen and Johansen 1978; Marubini and Valsecchi 1995, section 10.2",
    ),
    Metric(
        "hazard_shape",
        "ratio",
        "Weibull shape of the age at an interruption: below 1 infant mortality or crash loops, at 1 memoryless.",
        "maximum likelihood with right censoring and left truncation; compared with a constant hazard by AIC and "
        "likelihood ratio",
        "exposures",
        "metrics.failures.survival.weibull",
        "profile likelihood, 95 %",
        "our definitions 7.2; Klein and Moeschberger 2003, section 12.2",
    ),
    Metric(
        "failure_rate_ratio",
        "ratio",
        "Failure rate of the cluster over a published one, or over another cluster's.",
        "failures per GPU-day of the class / failures per GPU-day of the reference",
        "exposures",
        "metrics.failures.published.ratio_to_count",
        "exact two-sample (Clopper-Pearson) where the reference has a count, else the exact Poisson interval over a "
        "constant; 95 %, with phi",
        "our definitions 7.1; Przyborowski and Wilenski 1940; p_value: conditional binomial test, two-sided",
    ),
)
