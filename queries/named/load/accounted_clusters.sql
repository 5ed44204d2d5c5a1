-- One row is a cluster of which accounting, or Kubernetes' objects, were loaded.
SELECT DISTINCT cluster FROM loads WHERE source IN ('slurm.accounting', 'kubernetes.objects') ORDER BY cluster;
