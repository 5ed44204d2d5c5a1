-- warn: more GPUs were allocated on a node than its inventory has (or a split over nodes was assumed); the ledger scales them down
WITH held AS (
    SELECT
        n.cluster,
        n.node,
        SUM(
            -- A part of a GPU is rounded to a thousandth: seven sevenths are 1.001, and that is no GPU too many.
            (n.n_gpus - CASE WHEN n.n_gpus % 1 = 0 THEN 0 ELSE 0.001 END) * GREATEST(0, epoch_us(LEAST(COALESCE(r.ended_at, n.ended_at, i.ended_at), i.ended_at))
            - epoch_us(GREATEST(n.started_at, i.started_at))) * 0.000001
        ) AS gpu_seconds
    FROM attempt_node_times AS n
    LEFT JOIN runaway_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
    JOIN inventory AS i ON n.cluster = i.cluster AND n.node = i.node
    WHERE n.started_at IS NOT NULL
    GROUP BY ALL
),
counted AS (
    SELECT cluster, node, SUM(gpu_seconds) AS gpu_seconds FROM gpu_time WHERE state = 'allocated' GROUP BY ALL
)
SELECT cluster, node, held.gpu_seconds AS allocated, COALESCE(counted.gpu_seconds, 0) AS in_ledger
FROM held
LEFT JOIN counted USING (cluster, node)
WHERE held.gpu_seconds > COALESCE(counted.gpu_seconds, 0);
