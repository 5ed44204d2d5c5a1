-- One row is an attempt of a cluster and a metric of its nodes, of some metrics (their names with commas), in all of the computed time.
SELECT * FROM attempt_node_activity
WHERE cluster = $cluster AND list_contains(string_split($metrics, ','), metric)
ORDER BY job_id, submitted_at, metric, device;
