-- One row is an attempt of a cluster, as metrics read it.
SELECT
    cluster,
    scheduler,
    job_id,
    submitted_at,
    het_job_id,
    eligible_at,
    started_at,
    ended_at,
    state,
    reason,
    exit_code,
    cancelled_by,
    "user",
    account,
    "partition",
    name,
    suspended_s,
    n_nodes,
    CAST(req_gpus * 1000 AS BIGINT) AS req_milli_gpus,
    CAST(n_gpus * 1000 AS BIGINT) AS milli_gpus
FROM attempts
WHERE cluster = $cluster
ORDER BY job_id, submitted_at;
