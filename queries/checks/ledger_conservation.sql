-- stop: the ledger of a node does not add up to its capacity
WITH counted AS (
    SELECT cluster, node, SUM(gpu_seconds) AS gpu_seconds FROM gpu_time GROUP BY ALL
),
there AS (
    SELECT cluster, node, SUM(gpu_seconds) AS gpu_seconds FROM capacity GROUP BY ALL
)
SELECT cluster, node, counted.gpu_seconds AS in_ledger, there.gpu_seconds AS in_capacity
FROM counted
FULL JOIN there USING (cluster, node)
WHERE counted.gpu_seconds IS DISTINCT FROM there.gpu_seconds;
