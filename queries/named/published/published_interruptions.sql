-- One row is an interruption of a run's attempt, with its class and cause.
SELECT
    cluster,
    run_id AS run,
    job_id,
    CAST(attempt_no AS DOUBLE) AS attempt,
    ended_at,
    class,
    cause,
    COALESCE(node, '') AS node,
    CAST(n_gpus AS DOUBLE) AS gpus,
    runtime_s,
    evidence,
    COALESCE(detail, '') AS detail
FROM run_interruptions
ORDER BY ALL;
