-- One row is the id of a run of a cluster that held GPUs in a window: of the first `$most`, those whose GPUs were idle longest without a failure that explains it; where that is equal, those with the least observed time.
WITH held AS (
    SELECT
        r.run_id,
        g.gpus * (epoch_us(LEAST(g.ended_at, $until)) - epoch_us(GREATEST(g.started_at, $since))) * 0.000001 AS gpu_s,
        g.category = 'stalled' AND g.cause IN ('inactive', 'hang', 'data_stall', 'suspended', 'idle_gpus')
        AND g.evidence <> 'assumed' AS idle,
        g.category = 'unattributed' OR g.evidence = 'assumed' AS unseen
    FROM gpu_time AS g
    INNER JOIN run_attempts AS r
        ON r.cluster = $cluster
        AND r.scheduler = g.scheduler
        AND r.job_id = g.job_id
        AND r.submitted_at = g.submitted_at
    WHERE g.cluster = $cluster AND g.ended_at > $since AND g.started_at < $until AND g.state = 'allocated'
)
SELECT run_id
FROM held
GROUP BY run_id
ORDER BY
    COALESCE(SUM(gpu_s) FILTER (idle), 0) DESC,
    COALESCE(SUM(gpu_s) FILTER (idle OR unseen), 0) DESC,
    run_id
LIMIT $most;
