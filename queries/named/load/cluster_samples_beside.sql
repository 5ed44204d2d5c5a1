-- One row is a sample of a cluster of the frame `incoming` that begins in a time.
SELECT s.*
FROM cluster_samples AS s
SEMI JOIN incoming AS i ON s.cluster = i.cluster
WHERE s.cluster = $cluster AND s.ts >= $since AND s.ts < $until;
