-- One row is what the GPUs of an attempt of a cluster did on a UTC day, from one day to before another, as whole numbers.
SELECT * FROM attempt_activity_days
WHERE cluster = $cluster AND day >= $first AND day < $last
ORDER BY day, job_id, submitted_at;
