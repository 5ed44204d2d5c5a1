-- One row is an attempt of a cluster that began within a window, with what its placement is judged by.
SELECT
    a.cluster,
    a.scheduler,
    a.job_id,
    a.submitted_at,
    a.eligible_at,
    a.started_at,
    COALESCE(r.ended_at, a.ended_at) AS ended_at,
    CASE WHEN r.job_id IS NULL THEN a.state ELSE 'RUNAWAY' END AS state,
    a."user",
    a.account,
    a."partition",
    TRY_CAST(regexp_extract(a.submit_line, '--segment[= ]([0-9]{1,6})', 1) AS BIGINT) AS req_segment
FROM attempts AS a
LEFT JOIN runaway_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
WHERE a.cluster = $cluster AND a.started_at >= $since AND a.started_at < $until
ORDER BY a.job_id, a.submitted_at;
