-- One row is an attempt of a cluster, as metrics read it. A runaway ended at the latest at the time in `runaway_attempts`.
SELECT
    a.cluster,
    a.scheduler,
    a.job_id,
    a.submitted_at,
    a.het_job_id,
    a.eligible_at,
    a.started_at,
    COALESCE(r.ended_at, a.ended_at) AS ended_at,
    CASE WHEN r.job_id IS NULL THEN a.state ELSE 'RUNAWAY' END AS state,
    a.reason,
    a.exit_code,
    a.cancelled_by,
    a."user",
    a.account,
    a."partition",
    a.name,
    a.suspended_s,
    a.n_nodes,
    a.req_nodes,
    TRY_CAST(regexp_extract(a.submit_line, '--segment[= ]([0-9]{1,6})', 1) AS BIGINT) AS req_segment,
    CAST(a.req_gpus * 1000 AS BIGINT) AS req_milli_gpus,
    CAST(a.n_gpus * 1000 AS BIGINT) AS milli_gpus,
    a.failed_node
FROM attempts AS a
LEFT JOIN runaway_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
WHERE a.cluster = $cluster
ORDER BY a.job_id, a.submitted_at;
