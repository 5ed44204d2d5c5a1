-- One row is a refused row of a run log of that name that was cut off, of the clusters being loaded (frame `incoming`).
SELECT r.*
FROM rejects AS r
SEMI JOIN incoming AS i USING (cluster)
WHERE r.source = 'runlog' AND r.reason = $reason AND r.origin = $origin;
