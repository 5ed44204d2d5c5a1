-- One row is an hour of a GPU of a cluster in a time from roll-ups (a quantity that they cover less than nearly all of is null), with the seconds that they cover.
SELECT
    node,
    gpu,
    ts,
    MAX(covered_s) AS interval_s,
    MAX(mean) FILTER (metric = 'gpu_util' AND covered_s >= 3540) AS gpu_util,
    MAX(mean) FILTER (metric = 'gr_engine_active' AND covered_s >= 3540) AS gr_engine_active,
    MAX(mean) FILTER (metric = 'sm_active' AND covered_s >= 3540) AS sm_active,
    MAX(mean) FILTER (metric = 'tensor_active' AND covered_s >= 3540) AS tensor_active,
    MAX(mean) FILTER (metric = 'dram_active' AND covered_s >= 3540) AS dram_active,
    MAX(mean) FILTER (metric = 'power_w' AND covered_s >= 3540) AS power_w,
    MAX(active_s / covered_s) FILTER (metric = 'active' AND covered_s >= 3540) AS active_share
FROM gpu_hours
WHERE cluster = $cluster AND ts >= $since AND ts < $until
GROUP BY node, gpu, ts
ORDER BY node, gpu, ts;
