-- One row is a node of a cluster that samples, or hourly roll-ups, cover in a time, in the order of names.
SELECT DISTINCT node FROM node_samples WHERE cluster = $cluster AND ts >= $since AND ts < $until
UNION
SELECT DISTINCT node FROM node_hours WHERE cluster = $cluster AND ts >= $since AND ts < $until
ORDER BY node;
