-- One row is a cluster of which accounting, Kubernetes' objects or Determined's allocations were loaded.
SELECT DISTINCT cluster
FROM loads
WHERE source IN ('slurm.accounting', 'kubernetes.objects', 'determined.allocations')
ORDER BY cluster;
