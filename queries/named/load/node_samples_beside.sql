-- One row is a node sample of a node of the frame `incoming` that begins in a time.
SELECT s.*
FROM node_samples AS s
SEMI JOIN incoming AS i ON s.node = i.node
WHERE s.cluster = $cluster AND s.ts >= $since AND s.ts < $until;
