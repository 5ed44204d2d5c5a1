-- One row is an attempt of a job (its raw id, or the one that people see) or of a run, with the run that it is in.
SELECT
    a.cluster,
    a.scheduler,
    a.job_id,
    a.submitted_at,
    a.het_job_id,
    a.display_id,
    a.started_at,
    a.ended_at,
    a.state,
    r.run_id,
    r.attempt_no
FROM attempts AS a
JOIN run_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
WHERE a.cluster = $cluster
  AND ($job IS NULL OR $job IN (a.job_id, a.display_id, a.array_job_id))
  AND ($run IS NULL OR r.run_id = $run)
ORDER BY r.run_id, r.attempt_no, a.job_id, a.submitted_at;
