-- One row is an hour of a GPU of a cluster in a time, with its mean tensor activity and SM clock as a roll-up of nearly all of the hour has them.
SELECT
    node,
    gpu,
    ts,
    MAX(mean) FILTER (metric = 'tensor_active') AS tensor_active,
    MAX(mean) FILTER (metric = 'sm_clock_hz') AS sm_clock_hz
FROM gpu_hours
WHERE
    cluster = $cluster AND ts >= $since AND ts <= $until::TIMESTAMPTZ - INTERVAL 1 HOUR
    AND metric IN ('tensor_active', 'sm_clock_hz') AND covered_s >= 3540
GROUP BY node, gpu, ts
ORDER BY node, gpu, ts;
