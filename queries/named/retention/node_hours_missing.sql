-- One row is an hour of a time in which a node of a cluster has samples of a metric and device, and no roll-up of them.
WITH sampled AS (
    SELECT DISTINCT node, metric, device, date_trunc('hour', ts) AS ts
    FROM node_samples
    WHERE cluster = $cluster AND ts >= $since AND ts < $until
),

known AS (
    SELECT node, metric, device, ts FROM node_hours WHERE cluster = $cluster AND ts >= $since AND ts < $until
)

SELECT DISTINCT ts FROM sampled ANTI JOIN known USING (node, metric, device, ts)
ORDER BY ts;
