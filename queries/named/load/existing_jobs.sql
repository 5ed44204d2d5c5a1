-- One row is a job of the frame `incoming` that the warehouse has an attempt of.
SELECT DISTINCT i.cluster, i.scheduler, i.job_id FROM incoming AS i SEMI JOIN stored.attempts AS a USING (cluster, scheduler, job_id);
