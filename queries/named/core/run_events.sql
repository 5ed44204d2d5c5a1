-- One row is something that happened inside a run of a cluster, as it was logged: init, compile, data, checkpoint, eval.
SELECT
    cluster,
    run_id,
    ts,
    kind,
    scheduler,
    job_id,
    submitted_at,
    ended_at,
    step,
    durable_at,
    blocking,
    detail
FROM run_events
WHERE cluster = $cluster
ORDER BY run_id, ts, kind, job_id, step;
