-- warn: more GPUs were allocated on a node than its inventory has (or a split over nodes was assumed); the ledger scales them down
WITH times AS (
    SELECT
        cluster,
        node,
        epoch_us(started_at) AS low,
        epoch_us(ended_at) AS high,
        -- A part of a GPU is rounded to a thousandth: seven sevenths are 1.001, and that is no GPU too many.
        CAST(n_gpus * 1000 AS BIGINT) - CAST(n_gpus % 1 <> 0 AS BIGINT) AS milli
    FROM attempt_node_times
    WHERE started_at IS NOT NULL AND (ended_at IS NULL OR ended_at >= $since)
    UNION ALL
    -- A runaway's time after the end that is assumed for it is taken out again: there are few, and a join of all is long.
    SELECT
        n.cluster,
        n.node,
        GREATEST(epoch_us(n.started_at), epoch_us(r.ended_at)) AS low,
        epoch_us(n.ended_at) AS high,
        CAST(n.n_gpus % 1 <> 0 AS BIGINT) - CAST(n.n_gpus * 1000 AS BIGINT) AS milli
    FROM attempt_node_times AS n
    JOIN runaway_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
    WHERE n.started_at IS NOT NULL AND (n.ended_at IS NULL OR n.ended_at >= $since)
),
existed AS (
    SELECT cluster, node, epoch_us(GREATEST(started_at, $since)) AS low, epoch_us(ended_at) AS high
    FROM inventory
    WHERE ended_at > $since
),
held AS (
    SELECT
        n.cluster,
        n.node,
        -- Thousandths of GPUs times microseconds: whole numbers, added up in half the time of decimals.
        CAST(SUM(n.milli * GREATEST(0, LEAST(COALESCE(n.high, i.high), i.high) - GREATEST(n.low, i.low))) AS DECIMAL(28, 0))
        * 0.000000001 AS gpu_seconds
    FROM times AS n
    JOIN existed AS i ON n.cluster = i.cluster AND n.node = i.node
    GROUP BY ALL
),
counted AS (
    -- GPUs beside attempts that held an unknown number of them belong to no attempt.
    SELECT cluster, node, SUM(gpu_seconds) AS gpu_seconds FROM gpu_time
    WHERE state = 'allocated' AND job_id IS NOT NULL AND started_at >= $since
    GROUP BY ALL
)
SELECT cluster, node, held.gpu_seconds AS allocated, COALESCE(counted.gpu_seconds, 0) AS in_ledger
FROM held
LEFT JOIN counted USING (cluster, node)
WHERE held.gpu_seconds > COALESCE(counted.gpu_seconds, 0);
