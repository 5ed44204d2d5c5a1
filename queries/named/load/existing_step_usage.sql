-- One row is what the warehouse has of the use of a step that is being loaded (frame `incoming`: its key), of steps that started in the time given.
SELECT u.*
FROM step_usage AS u SEMI JOIN incoming AS i USING (cluster, scheduler, job_id, step, started_at)
WHERE u.started_at BETWEEN $since AND $until;
