-- One row is an attempt of a cluster with the GPU-seconds that it was allocated within a window.
SELECT
    scheduler,
    job_id,
    submitted_at,
    CAST(
        SUM(g.gpus * (epoch_us(LEAST(g.ended_at, $until)) - epoch_us(GREATEST(g.started_at, $since)))) * 0.000001 AS DOUBLE
    ) AS allocated_s
FROM gpu_time AS g
WHERE g.cluster = $cluster AND g.ended_at > $since AND g.started_at < $until AND g.state = 'allocated' AND g.job_id IS NOT NULL
GROUP BY ALL
ORDER BY job_id, submitted_at;
