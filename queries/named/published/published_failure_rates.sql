-- One row is a failure rate of a cluster in a stored window, by class and size of the job, with its 95 % interval.
SELECT
    cluster,
    window_from,
    window_until,
    class,
    counted,
    size,
    gpus_low,
    gpus_high,
    CAST(n_failures AS DOUBLE) AS n_failures,
    CAST(n_attempts AS DOUBLE) AS n_attempts,
    exposure_gpu_days,
    mttf_d * 86400 AS mttf_s,
    mttf_low_d * 86400 AS mttf_low_s,
    mttf_high_d * 86400 AS mttf_high_s,
    note
FROM failure_rates
ORDER BY ALL;
