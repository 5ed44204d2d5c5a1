-- Writes the Submit of the earliest row of the same job and user, for the jobs in the frame `jobs`. A row that does not
-- tell its user is the job's only user's.
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
    FROM attempts AS a SEMI JOIN jobs USING (cluster, scheduler, job_id)
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
UPDATE attempts SET first_submitted_at = f.first_submitted_at
FROM first AS f
WHERE
    attempts.cluster = f.cluster AND attempts.scheduler = f.scheduler AND attempts.job_id = f.job_id
    AND attempts.submitted_at = f.submitted_at
    AND attempts.first_submitted_at IS DISTINCT FROM f.first_submitted_at;
