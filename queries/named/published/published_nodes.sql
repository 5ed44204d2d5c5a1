-- One row is a node with its failures in a stored window, and whether they are more than by chance.
SELECT
    cluster,
    node,
    window_from,
    window_until,
    verdict,
    CAST(failures AS DOUBLE) AS failures,
    expected,
    q_value,
    exposure_gpu_days,
    CAST(out_count AS DOUBLE) AS times_out,
    detectable_factor
FROM node_scores
ORDER BY ALL;
