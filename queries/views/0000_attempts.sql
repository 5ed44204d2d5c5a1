-- One row is one execution of a scheduler job. Each requeue is a row of its own.
CREATE OR REPLACE VIEW attempts AS
SELECT
    a.* REPLACE (COALESCE(a.display_id, a.job_id) AS display_id),
    COALESCE(r.first_submitted_at, a.submitted_at) AS first_submitted_at -- Submit of the earliest row of the same job and user
FROM attempt_gpus AS a
LEFT JOIN resubmissions AS r USING (cluster, scheduler, job_id, submitted_at);
