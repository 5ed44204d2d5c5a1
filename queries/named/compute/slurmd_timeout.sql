-- One row is a cluster with the seconds Slurm waits for a silent node before it calls it down.
SELECT cluster, CAST(value AS BIGINT) AS slurmd_timeout_s
FROM cluster_settings
WHERE cluster = $cluster AND name = 'SlurmdTimeout' AND TRY_CAST(value AS BIGINT) IS NOT NULL;
