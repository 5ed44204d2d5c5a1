-- One row is a training step in the warehouse of one UTC day of a cluster.
SELECT * FROM steps
WHERE cluster = $cluster AND ts >= $since AND ts < $until;
