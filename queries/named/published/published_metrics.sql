-- One row is a metric of a cluster in a stored window: value, numerator, denominator, bounds and 95 % interval.
SELECT
    cluster,
    metric,
    window_from,
    window_until,
    dimension,
    subject,
    unit,
    value,
    numerator,
    denominator,
    CAST(n AS DOUBLE) AS n,
    bound_low,
    bound_high,
    ci_low,
    ci_high,
    note
FROM cluster_metrics
ORDER BY ALL;
