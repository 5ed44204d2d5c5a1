-- One row is the stored numbers of a run from its log: runs of a cluster with any such number.
SELECT
    cluster,
    run_id,
    logged_starts_gpus,
    interval_s,
    write_s,
    goodput_job,
    job_productive_s,
    job_s,
    job_logged,
    job_note
FROM run_results
WHERE cluster = $cluster
  AND (
      job_logged
      OR logged_starts_gpus IS NOT NULL
      OR interval_s IS NOT NULL
      OR write_s IS NOT NULL
      OR goodput_job IS NOT NULL
      OR job_productive_s IS NOT NULL
      OR job_s IS NOT NULL
      OR job_note IS NOT NULL
  )
ORDER BY run_id;
