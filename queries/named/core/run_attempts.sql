-- One row is the run that an attempt of a cluster belongs to.
SELECT cluster, scheduler, job_id, submitted_at, run_id, attempt_no, joined_by FROM run_attempts
WHERE cluster = $cluster
ORDER BY job_id, submitted_at;
