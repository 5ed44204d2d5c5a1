-- One row is an attempt of a cluster without a recorded end; those that were requested by id come last, the latest
-- at the end.
SELECT a.cluster, a.scheduler, a.job_id, a.submitted_at
FROM stored.attempts AS a
LEFT JOIN rechecks AS r USING (cluster, scheduler, job_id, submitted_at)
WHERE a.cluster = $cluster AND a.scheduler = 'slurm' AND (a.ended_at IS NULL OR a.end_guessed)
ORDER BY r.checked_at NULLS FIRST, a.submitted_at, a.job_id;
