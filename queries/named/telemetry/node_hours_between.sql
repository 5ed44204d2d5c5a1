-- One row is an hour of a series of a node of a cluster in a time that a roll-up covers nearly all of; of the nodes whose names lie between two, and of some metrics or all.
SELECT node, metric, device, ts, covered_s AS interval_s, mean AS value
FROM node_hours
WHERE cluster = $cluster AND ts >= $since AND ts < $until AND node >= $first AND node <= $last AND covered_s >= 3540
    AND mean IS NOT NULL AND ($metrics = '' OR list_contains(string_split($metrics, ','), metric))
ORDER BY node, metric, device, ts;
