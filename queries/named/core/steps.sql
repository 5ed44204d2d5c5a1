-- One row is a training step of a cluster, as its run logged it.
SELECT
    cluster,
    run_id,
    scheduler,
    job_id,
    submitted_at,
    step,
    ts,
    duration_s,
    tokens,
    loss
FROM steps
WHERE cluster = $cluster
ORDER BY run_id, ts, job_id, step;
