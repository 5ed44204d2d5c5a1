-- One row is a time in which Slurm and Kubernetes disagreed about a node, of those that began within a window.
SELECT *
FROM sync_intervals
WHERE cluster = $cluster AND started_at >= $since AND started_at < $until
ORDER BY started_at, node, kubernetes_node;
