-- One row is an attempt of a cluster on a node within a window, as metrics read it; see `attempt_nodes`.
SELECT
    n.cluster,
    n.scheduler,
    n.job_id,
    n.submitted_at,
    n.node,
    n.started_at,
    COALESCE(r.ended_at, n.ended_at) AS ended_at,
    n.suspended_s,
    CAST(n.n_gpus * 1000 AS BIGINT) AS milli_gpus,
    CASE WHEN r.job_id IS NULL AND n.end_guessed IS NULL THEN n.evidence ELSE 'assumed' END AS evidence
FROM attempt_node_times AS n
LEFT JOIN runaway_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
WHERE n.cluster = $cluster
  AND n.started_at < $until
  AND COALESCE(r.ended_at, n.ended_at, $until) >= $since;
