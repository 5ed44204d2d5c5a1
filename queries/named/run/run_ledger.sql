-- One row is what GPUs of a run did for an interval, nodes and attempts that did the same put together.
SELECT
    g.started_at,
    g.ended_at,
    g.category,
    g.cause,
    g.evidence,
    CAST(SUM(g.gpus) * 1000 AS BIGINT) AS milli_gpus
FROM gpu_time AS g
JOIN run_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
WHERE r.cluster = $cluster AND r.run_id = $run_id AND g.cluster = $cluster
GROUP BY ALL
ORDER BY g.started_at, g.ended_at, g.category, g.cause, g.evidence;
