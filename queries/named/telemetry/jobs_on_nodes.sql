-- One row is an attempt that held GPUs on a node just before a moment, with whose it is; of the largest attempts first.
SELECT
    n.node,
    a.display_id AS job_id,
    COALESCE(r.run_id, a.display_id) AS run_id,
    a.user,
    a.account,
    a.partition,
    n.n_gpus
FROM attempt_node_times AS n
JOIN attempts AS a USING (cluster, scheduler, job_id, submitted_at)
LEFT JOIN run_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
ANTI JOIN runaway_attempts AS w USING (cluster, scheduler, job_id, submitted_at)
WHERE n.cluster = $cluster
  AND n.started_at < $until
  AND (n.ended_at IS NULL OR n.ended_at >= $until)
  AND n.n_gpus > 0
ORDER BY a.n_gpus DESC, a.display_id, a.submitted_at, n.node;
