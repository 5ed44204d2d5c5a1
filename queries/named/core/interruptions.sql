-- One row is an attempt of a run that ended without completing, in the window; a heterogeneous job's components are one row.
SELECT * EXCLUDE (n_gpus), n_gpus, CAST(n_gpus * 1000 AS BIGINT) AS milli_gpus
FROM run_interruptions
WHERE cluster = $cluster AND ended_at > $since AND ended_at <= $until
ORDER BY ended_at, job_id, submitted_at;
