-- One row is the GPU-seconds of a subject (a cluster, day, node, user, account, partition or run) in one category, within a window.
WITH clipped AS (
    SELECT
        g.*,
        CAST(
            g.gpus * (epoch_us(LEAST(g.ended_at, $until)) - epoch_us(GREATEST(g.started_at, $since))) * 0.000001
            AS DECIMAL(38, 9)
        ) AS clipped_gpu_seconds
    FROM gpu_time AS g
    WHERE g.cluster = $cluster AND g.ended_at > $since AND g.started_at < $until
)
SELECT
    cluster,
    CASE $dimension
        WHEN 'cluster' THEN cluster
        WHEN 'node' THEN c.node
        WHEN 'day' THEN CAST(CAST(c.started_at AS DATE) AS VARCHAR)
        WHEN 'user' THEN COALESCE(a.user, '(no attempt)')
        WHEN 'account' THEN COALESCE(a.account, '(no attempt)')
        WHEN 'partition' THEN COALESCE(a.partition, '(no attempt)')
        WHEN 'run' THEN COALESCE(r.run_id, '(no attempt)')
    END AS subject,
    c.state,
    c.category,
    c.cause,
    c.evidence,
    SUM(c.clipped_gpu_seconds) AS gpu_seconds
FROM clipped AS c
LEFT JOIN attempts AS a USING (cluster, scheduler, job_id, submitted_at)
LEFT JOIN run_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
GROUP BY ALL;
