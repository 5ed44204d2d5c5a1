-- One row is a sample of a node of a cluster that begins in a time; of the nodes whose names lie between two, and of some metrics or all.
SELECT node, metric, device, ts, interval_s, value
FROM node_samples
WHERE cluster = $cluster AND ts >= $since AND ts < $until AND node >= $first AND node <= $last
    AND ($metrics = '' OR list_contains(string_split($metrics, ','), metric))
ORDER BY node, metric, device, ts;
