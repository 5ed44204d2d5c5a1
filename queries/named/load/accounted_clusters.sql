-- One row is a cluster of which accounting, Kubernetes' objects, kube-state-metrics' pods or Determined's allocations were loaded.
SELECT DISTINCT cluster
FROM loads
WHERE source IN ('slurm.accounting', 'kubernetes.objects', 'prometheus.pods', 'determined.allocations')
ORDER BY cluster;
