-- Writes which attempts, of the jobs in the frame `jobs`, are of a job that the same user submitted before. A row
-- without a user is the job's only user's.
INSERT INTO resubmissions
WITH owned AS (
    SELECT
        a.cluster,
        a.scheduler,
        a.job_id,
        a.submitted_at,
        CASE
            WHEN MIN(a."user") OVER of_job = MAX(a."user") OVER of_job THEN MAX(a."user") OVER of_job
            ELSE a."user"
        END AS owner
    FROM stored.attempts AS a SEMI JOIN jobs USING (cluster, scheduler, job_id)
    WINDOW of_job AS (PARTITION BY a.cluster, a.scheduler, a.job_id)
),
first AS (
    SELECT
        cluster,
        scheduler,
        job_id,
        submitted_at,
        MIN(submitted_at) OVER (PARTITION BY cluster, scheduler, job_id, owner) AS first_submitted_at
    FROM owned
)
SELECT cluster, scheduler, job_id, submitted_at, first_submitted_at
FROM first
WHERE first_submitted_at < submitted_at;
