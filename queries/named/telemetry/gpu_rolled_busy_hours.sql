-- One row is an hour (since 1970) in which a GPU of a cluster was busy for nearly all of the time, in a time of whole hours, by its roll-up, with its means.
SELECT
    node,
    gpu,
    hour,
    CAST(COALESCE(tensor_active, sm_active) AS FLOAT) AS work,
    CAST(sm_clock_hz AS FLOAT) AS sm_clock_hz,
    CAST(power_w AS FLOAT) AS power_w,
    CAST(temperature_c AS FLOAT) AS temperature_c,
    CAST(pcie_bytes_per_s AS FLOAT) AS pcie_bytes_per_s,
    CAST(nvlink_bytes_per_s AS FLOAT) AS nvlink_bytes_per_s
FROM (
    SELECT
        node,
        gpu,
        epoch_us(ts) // 3600000000 AS hour,
        MAX(mean) FILTER (metric = 'tensor_active') AS tensor_active,
        MAX(mean) FILTER (metric = 'sm_active') AS sm_active,
        MAX(mean) FILTER (metric = 'sm_clock_hz') AS sm_clock_hz,
        MAX(mean) FILTER (metric = 'power_w') AS power_w,
        MAX(mean) FILTER (metric = 'temperature_c') AS temperature_c,
        MAX(mean) FILTER (metric = 'pcie_bytes_per_s') AS pcie_bytes_per_s,
        MAX(mean) FILTER (metric = 'nvlink_bytes_per_s') AS nvlink_bytes_per_s
    FROM gpu_hours
    WHERE cluster = $cluster AND ts >= $since AND ts < $until AND covered_s >= 3540
    GROUP BY node, gpu, hour
    HAVING MAX(active_s / covered_s) FILTER (metric = 'active') >= 0.95
);
