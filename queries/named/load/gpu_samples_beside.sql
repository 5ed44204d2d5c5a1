-- One row is a GPU sample of a node of the frame `incoming` that begins in a time.
SELECT s.*
FROM gpu_samples AS s
SEMI JOIN incoming AS i ON s.node = i.node
WHERE s.cluster = $cluster AND s.ts >= $since AND s.ts < $until;
