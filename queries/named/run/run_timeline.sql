-- One row is what GPUs of an attempt of a run did for an interval (all nodes together), or a wait for nodes (category queued).
SELECT
    r.attempt_no,
    r.job_id,
    r.submitted_at,
    g.started_at,
    g.ended_at,
    g.category,
    g.cause,
    g.evidence,
    CAST(SUM(g.gpus) AS DOUBLE) AS gpus
FROM gpu_time AS g
JOIN run_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
WHERE r.cluster = $cluster AND r.run_id = $run_id
GROUP BY ALL
UNION ALL BY NAME
SELECT
    r.attempt_no,
    r.job_id,
    r.submitted_at,
    GREATEST(a.eligible_at, a.submitted_at) AS started_at,
    COALESCE(a.started_at, a.ended_at, c.until) AS ended_at,
    'queued' AS category,
    NULL AS cause,
    'accounting' AS evidence,
    CAST(GREATEST(a.n_gpus, a.req_gpus) AS DOUBLE) AS gpus
FROM attempts AS a
JOIN run_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
JOIN computes AS c USING (cluster)
WHERE r.cluster = $cluster AND r.run_id = $run_id AND a.eligible_at IS NOT NULL
    AND GREATEST(a.eligible_at, a.submitted_at) < COALESCE(a.started_at, a.ended_at, c.until)
ORDER BY attempt_no, job_id, started_at, category, cause;
