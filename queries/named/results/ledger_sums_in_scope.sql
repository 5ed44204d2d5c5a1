-- One row is the GPU-seconds of a subject (the cluster, a day or a run) in one category within a window: on some nodes (null: all), of some attempts (a user's, an account's, a partition's, of a size in GPUs; null: all, and idle GPUs), and without those on nodes that are left out.
WITH wanted AS (
    SELECT UNNEST(CAST($nodes AS VARCHAR[])) AS node
),
left_out AS (
    SELECT UNNEST(CAST($without AS VARCHAR[])) AS node
),
together AS (
    SELECT cluster, scheduler, het_job_id, submitted_at, CASE WHEN COUNT(n_gpus) = COUNT(*) THEN SUM(n_gpus) END AS n_gpus
    FROM attempts
    WHERE cluster = $cluster AND het_job_id IS NOT NULL
    GROUP BY ALL
),
clipped AS (
    SELECT
        g.*,
        epoch_us(LEAST(g.ended_at, $until)) - epoch_us(GREATEST(g.started_at, $since)) AS clipped_us
    FROM gpu_time AS g
    LEFT JOIN attempts AS a USING (cluster, scheduler, job_id, submitted_at)
    LEFT JOIN together AS t
        ON t.cluster = a.cluster AND t.scheduler = a.scheduler AND t.het_job_id = a.het_job_id
            AND t.submitted_at = a.submitted_at
    WHERE g.cluster = $cluster AND g.ended_at > $since AND g.started_at < $until
      AND ($nodes IS NULL OR g.node IN (SELECT node FROM wanted))
      AND g.node NOT IN (SELECT node FROM left_out)
      AND ($user IS NULL OR a."user" = $user)
      AND ($account IS NULL OR a.account = $account)
      AND ($partition IS NULL OR a."partition" = $partition)
      AND ($gpus_min IS NULL OR CASE WHEN t.cluster IS NULL THEN a.n_gpus ELSE t.n_gpus END >= $gpus_min)
      AND ($gpus_max IS NULL OR CASE WHEN t.cluster IS NULL THEN a.n_gpus ELSE t.n_gpus END <= $gpus_max)
)
SELECT
    c.cluster,
    CASE $dimension
        WHEN 'cluster' THEN c.cluster
        WHEN 'day' THEN CAST(CAST(make_timestamp(epoch_us(c.started_at)) AS DATE) AS VARCHAR)
        WHEN 'run' THEN COALESCE(r.run_id, '(no attempt)')
    END AS subject,
    c.state,
    c.category,
    c.cause,
    c.evidence,
    SUM(CAST(c.gpus * c.clipped_us * 0.000001 AS DECIMAL(38, 9))) AS gpu_seconds,
    -- Rounded before it is summed up: a sum of floats depends on its order.
    SUM(CAST(
        c.straggling_gpu_seconds * (c.clipped_us / (epoch_us(c.ended_at) - epoch_us(c.started_at))) AS DECIMAL(38, 9)
    )) AS straggling_gpu_seconds
FROM clipped AS c
LEFT JOIN run_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
GROUP BY ALL;
