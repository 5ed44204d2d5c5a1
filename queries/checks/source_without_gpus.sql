-- warn: no source records how many GPUs attempts held. Of Slurm: add gres/gpu to AccountingStorageTRES in slurm.conf and restart slurmctld; for jobs that ran before, load `scontrol show job -d` or sacct with SubmitLine; the GPUs of shards and MPS are unknown. Of pods: time slices, MPS, GPU memory, or a ResourceClaim that was not loaded
-- of: FROM attempt_estimated_gpus WHERE n_gpus IS NULL
SELECT a.cluster, COUNT(*) AS attempts, MIN(a.started_at) AS first_started_at, MAX(a.started_at) AS last_started_at
FROM attempts AS a
WHERE a.n_gpus IS NULL
GROUP BY a.cluster;
