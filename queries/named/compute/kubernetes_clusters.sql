-- One row is a cluster of which Kubernetes' objects were loaded.
SELECT DISTINCT cluster FROM loads WHERE source = 'kubernetes.objects' ORDER BY cluster;
