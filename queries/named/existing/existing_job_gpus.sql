-- One row is a job's GPUs as slurmctld showed them, in the warehouse, of a job that is being loaded (the frame `incoming`).
SELECT j.*
FROM job_gpus AS j SEMI JOIN incoming AS i USING (cluster, job_id, submitted_at);
