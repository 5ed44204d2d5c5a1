-- One row is what a node of a cluster did on a day in a time of whole days, as whole milliseconds and value x seconds, of some metrics or all; the last day first.
SELECT * EXCLUDE (cluster)
FROM node_day_sums
WHERE cluster = $cluster AND ts >= $since AND ts < $until
    AND ($metrics = '' OR list_contains(string_split($metrics, ','), metric))
ORDER BY ts DESC, node, metric, device;
