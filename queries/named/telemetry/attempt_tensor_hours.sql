-- One row is a whole hour of an attempt that held all GPUs of its nodes, with what roll-ups of the hour tell of their tensor pipes: their mean activity, and the SM clock while they were active.
-- Node checks (attempt_activity.verification) are no training.
WITH gpus AS (
    SELECT
        node,
        gpu,
        ts,
        -- Decimals: a sum of floats depends on its order.
        TRY_CAST(MAX(mean) FILTER (metric = 'tensor_active') AS DECIMAL(20, 12)) AS tensor,
        TRY_CAST(MAX(mean) FILTER (metric = 'sm_clock_hz') AS DECIMAL(16, 2)) AS clock_hz
    FROM gpu_hours
    WHERE
        cluster = $cluster AND ts >= $since AND ts + INTERVAL 1 HOUR <= $until
        AND metric IN ('tensor_active', 'sm_clock_hz') AND covered_s >= 3540
    GROUP BY node, gpu, ts
),
by_node AS (
    SELECT
        node,
        epoch_us(ts) // 3600000000 AS hour,
        COUNT(tensor) AS n_gpus,
        SUM(tensor) AS tensor,
        SUM(tensor) FILTER (clock_hz IS NOT NULL) AS timed,
        SUM(tensor * clock_hz) AS ticked
    FROM gpus
    GROUP BY node, ts
    HAVING COUNT(tensor) > 0
),
span AS (
    SELECT MIN(hour) AS first, MAX(hour) + 1 AS last FROM by_node
),
models AS (
    SELECT node, MAX(gpu_model) AS gpu_model FROM nodes WHERE cluster = $cluster GROUP BY node
),
held AS (
    SELECT
        n.scheduler,
        n.job_id,
        n.submitted_at,
        n.node,
        n.n_gpus,
        COALESCE(a.gpu_model, m.gpu_model) AS gpu_model,
        UNNEST(range(
            GREATEST((epoch_us(a.started_at) + 3599999999) // 3600000000, s.first),
            LEAST(epoch_us(COALESCE(a.ended_at, $until)) // 3600000000, s.last)
        )) AS hour
    FROM attempt_nodes AS n
    JOIN attempts AS a USING (cluster, scheduler, job_id, submitted_at)
    ANTI JOIN (SELECT * FROM attempt_activity WHERE verification) USING (cluster, scheduler, job_id, submitted_at)
    CROSS JOIN span AS s
    LEFT JOIN models AS m USING (node)
    WHERE
        n.cluster = $cluster AND n.evidence = 'accounting' AND n.n_gpus > 0 AND COALESCE(a.suspended_s, 0) = 0
        AND s.first IS NOT NULL AND a.started_at < $until AND COALESCE(a.ended_at, $until) > $since
)
SELECT
    $cluster AS cluster,
    h.scheduler,
    h.job_id,
    h.submitted_at,
    r.run_id,
    h.hour,
    MAX(h.gpu_model) AS gpu_model,
    CAST(SUM(h.n_gpus) AS DOUBLE) AS held_gpus,
    CAST(SUM(LEAST(t.n_gpus, h.n_gpus)) AS DOUBLE) AS seen_gpus,
    SUM(t.tensor) / SUM(t.n_gpus) AS tensor_active,
    CASE WHEN SUM(t.timed) > 0 THEN SUM(t.ticked) / SUM(t.timed) END AS sm_clock_hz
FROM held AS h
LEFT JOIN by_node AS t USING (node, hour)
LEFT JOIN run_attempts AS r
    ON r.cluster = $cluster AND r.scheduler = h.scheduler AND r.job_id = h.job_id AND r.submitted_at = h.submitted_at
GROUP BY h.scheduler, h.job_id, h.submitted_at, r.run_id, h.hour
-- Where a node has more GPUs with samples than the attempt held there, whose they were is not told.
HAVING SUM(t.n_gpus) > 0 AND BOOL_AND(t.n_gpus IS NULL OR t.n_gpus <= h.n_gpus)
ORDER BY h.job_id, h.submitted_at, h.hour;
