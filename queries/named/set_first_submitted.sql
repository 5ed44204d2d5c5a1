-- Writes the Submit of the earliest row of the same job and user, for the jobs in the frame `jobs`.
UPDATE attempts SET first_submitted_at = f.first_submitted_at
FROM (
    SELECT cluster, scheduler, job_id, "user", MIN(submitted_at) AS first_submitted_at
    FROM attempts SEMI JOIN jobs USING (cluster, scheduler, job_id)
    GROUP BY ALL
) AS f
WHERE
    attempts.cluster = f.cluster AND attempts.scheduler = f.scheduler AND attempts.job_id = f.job_id
    AND attempts."user" IS NOT DISTINCT FROM f."user"
    AND attempts.first_submitted_at IS DISTINCT FROM f.first_submitted_at;
