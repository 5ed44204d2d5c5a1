-- One row is a node of a cluster within a window: GPU-seconds of its presence, and those that attempts ran on it.
-- Time on a dead node, and suspended time, did not run; beside jobs with unknown GPUs it is unknown.
WITH clipped AS (
    SELECT
        node,
        state = 'allocated' AND COALESCE(cause, '') NOT IN ('node_down', 'suspended', 'gpus_unknown') AS ran,
        gpus * (epoch_us(LEAST(ended_at, $until)) - epoch_us(GREATEST(started_at, $since))) * 0.000001 AS gpu_s
    FROM gpu_time
    WHERE cluster = $cluster AND ended_at > $since AND started_at < $until
)
SELECT
    $cluster AS cluster,
    node,
    CAST(SUM(gpu_s) AS DOUBLE) AS present_gpu_s,
    CAST(COALESCE(SUM(gpu_s) FILTER (ran), 0) AS DOUBLE) AS ran_gpu_s
FROM clipped
GROUP BY node
ORDER BY node;
