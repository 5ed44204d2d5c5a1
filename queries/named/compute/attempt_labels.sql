-- One row is what was written at an attempt of a cluster that may name its run.
SELECT
    cluster,
    scheduler,
    job_id,
    submitted_at,
    array_job_id,
    work_dir,
    comment,
    admin_comment,
    wckey,
    submit_line,
    env_run
FROM stored.attempts
WHERE cluster = $cluster
ORDER BY job_id, submitted_at;
