-- One row is what the GPUs of an attempt of a cluster did in all of the computed time.
SELECT * FROM attempt_activity WHERE cluster = $cluster ORDER BY job_id, submitted_at;
