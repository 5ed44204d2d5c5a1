-- One row is an attempt in the warehouse whose job id is among those being loaded (the frame `incoming`).
SELECT a.* FROM attempts AS a SEMI JOIN incoming AS i USING (cluster, scheduler, job_id);
