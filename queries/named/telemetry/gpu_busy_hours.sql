-- One row is an hour (since 1970) in which a GPU of a cluster was busy, in a time of whole hours, with its means while it was: of samples (at least half an hour of them), else of a roll-up of an hour that was busy nearly all of the time.
WITH sampled AS (
    SELECT
        node,
        gpu,
        epoch_us(ts) // 3600000000 AS hour,
        SUM(interval_s) AS busy_s,
        AVG(tensor_active) AS tensor_active,
        AVG(sm_active) AS sm_active,
        AVG(sm_clock_hz) AS sm_clock_hz,
        AVG(power_w) AS power_w,
        AVG(temperature_c) AS temperature_c,
        AVG(pcie_bytes_per_s) AS pcie_bytes_per_s,
        AVG(nvlink_bytes_per_s) AS nvlink_bytes_per_s
    FROM gpu_samples
    WHERE cluster = $cluster AND ts >= $since AND ts < $until
        AND COALESCE(tensor_active >= $active_tensor, gr_engine_active >= $active_gr_engine, gpu_util > $active_gpu_util)
    GROUP BY node, gpu, hour
),
rolled AS (
    SELECT * EXCLUDE (cluster, ts), epoch_us(ts) // 3600000000 AS hour
    FROM rolled_busy_hours
    WHERE cluster = $cluster AND ts >= $since AND ts < $until
)
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
    SELECT * EXCLUDE (busy_s) FROM sampled WHERE busy_s >= 1800
    UNION ALL BY NAME
    SELECT r.* FROM rolled AS r ANTI JOIN sampled AS s USING (node, gpu, hour)
)
ORDER BY node, gpu, hour;
