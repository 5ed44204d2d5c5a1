-- warn: a run log names a job that accounting does not know: load the accounting of that time, or is the job id not the scheduler's?
SELECT s.cluster, s.run_id, s.scheduler, s.job_id, s.started_at
FROM run_sessions AS s
WHERE s.job_id IS NOT NULL
    AND EXISTS (SELECT 1 FROM attempts AS a WHERE a.cluster = s.cluster)
    AND NOT EXISTS (
        SELECT 1 FROM attempts AS a
        WHERE a.cluster = s.cluster AND a.scheduler = s.scheduler AND a.job_id = s.job_id
    );
