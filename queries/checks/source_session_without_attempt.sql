-- warn: a run log names no job, or one that accounting does not have, so its GPUs are unknown: load the accounting of that time, or log the scheduler's job id.
-- of: FROM run_sessions
SELECT s.cluster, s.run_id, s.scheduler, s.job_id, s.started_at
FROM run_sessions AS s
WHERE
    EXISTS (SELECT 1 FROM stored.attempts AS a WHERE a.cluster = s.cluster)
    AND NOT EXISTS (
        SELECT 1 FROM stored.attempts AS a
        WHERE a.cluster = s.cluster AND a.scheduler = s.scheduler AND a.job_id = s.job_id
    );
