-- One row is an attempt of the frame `incoming`, known by the id that people see, with its raw id from the warehouse.
SELECT DISTINCT i.cluster, i.scheduler, i.job_id, i."second", a.job_id AS raw_id
FROM incoming AS i
JOIN attempts AS a
    ON a.cluster = i.cluster AND a.scheduler = i.scheduler AND a.display_id = i.job_id
    AND date_trunc('second', a.submitted_at) = i."second"
WHERE a.job_id <> a.display_id
QUALIFY COUNT(*) OVER (PARTITION BY i.cluster, i.scheduler, i.job_id, i."second") = 1;
