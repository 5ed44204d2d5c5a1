-- One row is an hour (since 1970) in which a GPU of a cluster was busy for nearly all of the time, in a time of whole hours, by its roll-up, with its means.
SELECT
    node,
    gpu,
    epoch_us(ts) // 3600000000 AS hour,
    CAST(COALESCE(tensor_active, sm_active) AS FLOAT) AS work,
    CAST(sm_clock_hz AS FLOAT) AS sm_clock_hz,
    CAST(power_w AS FLOAT) AS power_w,
    CAST(temperature_c AS FLOAT) AS temperature_c,
    CAST(pcie_bytes_per_s AS FLOAT) AS pcie_bytes_per_s,
    CAST(nvlink_bytes_per_s AS FLOAT) AS nvlink_bytes_per_s
FROM rolled_busy_hours
WHERE cluster = $cluster AND ts >= $since AND ts < $until;
