-- One row is a claim that was judged on a window of a cluster.
SELECT
    cluster,
    claim,
    window_from,
    window_until,
    quoted,
    metric,
    unit,
    target,
    value,
    low,
    high,
    verdict,
    COALESCE(needed, '') AS needed
FROM verdicts
ORDER BY ALL;
