-- One row is a job whose id begins with `prefix`, the one that was submitted last first.
SELECT job_id
FROM run_attempts
WHERE starts_with(job_id, $prefix)
GROUP BY job_id
ORDER BY MAX(submitted_at) DESC, job_id
LIMIT 200;
