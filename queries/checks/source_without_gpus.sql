-- warn: no attempt of this cluster names a GPU: is gres/gpu in Slurm's AccountingStorageTRES?
SELECT cluster, COUNT(*) AS attempts FROM attempts GROUP BY cluster HAVING SUM(n_gpus) = 0;
