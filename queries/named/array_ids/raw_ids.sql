-- One row is an attempt of the frame `incoming`, known by the id that people see, with its raw id from the warehouse: the
-- only one that this id ever had there, else the one of the same second of submission. A job's attempts share its raw id,
-- so what must be one is the different raw ids, not the rows that have them.
WITH candidates AS (
    SELECT DISTINCT
        a.cluster,
        a.scheduler,
        a.display_id,
        a.job_id AS raw_id,
        date_trunc('second', a.submitted_at) AS "second"
    FROM attempts AS a
    SEMI JOIN incoming AS i ON a.cluster = i.cluster AND a.scheduler = i.scheduler AND a.display_id = i.job_id
    WHERE a.job_id <> a.display_id
),
counted AS (
    SELECT *, MIN(raw_id) OVER of_id = MAX(raw_id) OVER of_id AS only_one
    FROM candidates
    WINDOW of_id AS (PARTITION BY cluster, scheduler, display_id)
)
SELECT i.cluster, i.scheduler, i.job_id, i."second", ANY_VALUE(c.raw_id) AS raw_id
FROM incoming AS i
JOIN counted AS c
    ON c.cluster = i.cluster AND c.scheduler = i.scheduler AND c.display_id = i.job_id
    AND (c.only_one OR c."second" = i."second")
GROUP BY i.cluster, i.scheduler, i.job_id, i."second"
HAVING COUNT(DISTINCT c.raw_id) = 1;
