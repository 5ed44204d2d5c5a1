-- One row is the memory in use on the GPUs of a run, over the hours in which it held all GPUs of their node: the mean, the most of one GPU, and the GPU-hours that roll-ups cover.
WITH held AS (
    SELECT n.node, a.started_at, COALESCE(a.ended_at, 'infinity') AS ended_at
    FROM run_attempts AS r
    JOIN stored.attempts AS a USING (cluster, scheduler, job_id, submitted_at)
    JOIN attempt_nodes AS n USING (cluster, scheduler, job_id, submitted_at)
    JOIN (SELECT node, MAX(n_gpus) AS n_gpus FROM nodes WHERE cluster = $cluster GROUP BY node) AS i USING (node)
    WHERE r.cluster = $cluster AND r.run_id = $run_id AND a.started_at IS NOT NULL AND n.n_gpus >= i.n_gpus
)
SELECT
    SUM(h.mean * h.covered_s) / SUM(h.covered_s) AS mean_bytes,
    MAX(h.max) AS max_bytes,
    SUM(h.covered_s) / 3600 AS gpu_hours
FROM gpu_hours AS h
JOIN held AS d ON h.node = d.node AND h.ts >= d.started_at AND h.ts + INTERVAL 1 HOUR <= d.ended_at
WHERE h.cluster = $cluster AND h.metric = 'memory_used_bytes' AND h.covered_s > 0
HAVING SUM(h.covered_s) > 0;
