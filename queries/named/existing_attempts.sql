-- One row is an attempt in the warehouse of a job that is being loaded (frame `incoming`), submitted in the time given.
SELECT a.*
FROM attempts AS a SEMI JOIN incoming AS i USING (cluster, scheduler, job_id)
WHERE a.submitted_at BETWEEN $since AND $until;
