-- One row is the window of one load of a source of a cluster.
SELECT cluster, covers_from AS started_at, covers_until AS ended_at
FROM loads
WHERE cluster = $cluster AND source = $source;
