-- One row is an attempt of a cluster on a node, as metrics read it.
SELECT
    cluster,
    scheduler,
    job_id,
    submitted_at,
    n.node,
    a.started_at,
    a.ended_at,
    a.suspended_s,
    CAST(n.n_gpus * 1000 AS BIGINT) AS milli_gpus,
    n.evidence
FROM attempt_nodes AS n
JOIN attempts AS a USING (cluster, scheduler, job_id, submitted_at)
WHERE cluster = $cluster AND a.started_at IS NOT NULL
ORDER BY job_id, submitted_at, n.node;
