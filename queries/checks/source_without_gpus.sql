-- warn: accounting records no GPUs for attempts that held nodes, and no other source has them: add gres/gpu to AccountingStorageTRES in slurm.conf and restart slurmctld; for jobs that ran before, load `scontrol show job -d` or sacct with SubmitLine
-- of: FROM attempt_estimated_gpus WHERE n_gpus IS NULL
SELECT a.cluster, COUNT(*) AS attempts, MIN(a.started_at) AS first_started_at, MAX(a.started_at) AS last_started_at
FROM attempts AS a
WHERE a.n_gpus IS NULL
GROUP BY a.cluster;
