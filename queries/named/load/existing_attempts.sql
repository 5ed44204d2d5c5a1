-- One row is an attempt in the warehouse of a job that is being loaded (frame `incoming`), submitted in the time given: as it is stored, GPUs that accounting did not record null.
SELECT a.* REPLACE (COALESCE(a.display_id, a.job_id) AS display_id)
FROM stored.attempts AS a SEMI JOIN incoming AS i USING (cluster, scheduler, job_id)
WHERE a.submitted_at BETWEEN $since AND $until;
