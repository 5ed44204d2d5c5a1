-- One row is an attempt on a node of a cluster on a day in a time of whole days, as whole milliseconds and value x seconds, of some metrics or all; the last day first.
SELECT * EXCLUDE (cluster)
FROM attempt_node_day_sums
WHERE cluster = $cluster AND ts >= $since AND ts < $until
    AND ($metrics = '' OR list_contains(string_split($metrics, ','), metric))
ORDER BY ts DESC, job_id, submitted_at, node, metric, device;
