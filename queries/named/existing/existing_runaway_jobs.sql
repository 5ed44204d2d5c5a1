-- One row is a runaway job in the warehouse that is being loaded (the frame `incoming`).
SELECT r.* FROM runaway_jobs AS r SEMI JOIN incoming AS i USING (cluster, job_id, submitted_at);
