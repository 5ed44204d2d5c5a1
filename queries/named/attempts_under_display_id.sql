-- One row is an attempt that the warehouse has under the id that people see, with the raw id that the frame `incoming` tells.
SELECT a.*, i.job_id AS raw_id
FROM attempts AS a
JOIN incoming AS i
    ON a.cluster = i.cluster AND a.scheduler = i.scheduler AND a.job_id = i.display_id
    AND date_trunc('second', a.submitted_at) = i."second"
WHERE i.job_id <> i.display_id
QUALIFY COUNT(DISTINCT i.job_id) OVER (PARTITION BY a.cluster, a.scheduler, a.job_id, a.submitted_at) = 1;
