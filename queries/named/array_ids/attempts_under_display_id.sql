-- One row is an attempt that the warehouse has under the displayed id, with the raw id in the frame `incoming`:
-- the only one for this id, else the one of the same second of submission.
WITH counted AS (
    SELECT *, MIN(job_id) OVER of_id = MAX(job_id) OVER of_id AS only_one
    FROM incoming
    WHERE job_id <> display_id
    WINDOW of_id AS (PARTITION BY cluster, scheduler, display_id)
),
matched AS (
    SELECT DISTINCT a.cluster, a.scheduler, a.job_id, a.submitted_at, c.job_id AS raw_id
    FROM stored.attempts AS a
    JOIN counted AS c
        ON a.cluster = c.cluster AND a.scheduler = c.scheduler AND a.job_id = c.display_id
        AND (c.only_one OR date_trunc('second', a.submitted_at) = c."second")
)
SELECT a.* REPLACE (COALESCE(a.display_id, a.job_id) AS display_id), m.raw_id
FROM stored.attempts AS a JOIN matched AS m USING (cluster, scheduler, job_id, submitted_at)
QUALIFY COUNT(*) OVER (PARTITION BY a.cluster, a.scheduler, a.job_id, a.submitted_at) = 1;
