-- One row is an attempt of a cluster that held nodes and may have run in the window: what failure rates divide by. Null GPUs are unknown. Components of heterogeneous jobs come whenever they ran.
SELECT
    a.cluster,
    a.scheduler,
    a.job_id,
    a.submitted_at,
    a.het_job_id,
    a.started_at,
    COALESCE(r.ended_at, a.ended_at) AS ended_at,
    CASE WHEN r.job_id IS NULL THEN a.state ELSE 'RUNAWAY' END AS state,
    a."user",
    a."partition",
    a.suspended_s,
    a.n_nodes,
    CAST(a.n_gpus * 1000 AS BIGINT) AS milli_gpus
FROM attempts AS a
LEFT JOIN runaway_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
WHERE a.cluster = $cluster
  AND a.started_at IS NOT NULL
  AND a.n_nodes > 0
  AND a.n_gpus IS DISTINCT FROM 0
  AND (
      a.het_job_id IS NOT NULL
      OR (
          LEAST(a.started_at, COALESCE(r.ended_at, a.ended_at)) < $until
          AND GREATEST(a.started_at, COALESCE(r.ended_at, a.ended_at, 'infinity')) >= $since
      )
  )
-- Sums of floating-point numbers depend on the order, and the same data must give the same bytes.
ORDER BY a.job_id, a.submitted_at;
