-- Writes gpu_hours: takes out the rows that the frame `incoming` says as well or better (as much of the hour, or more).
DELETE FROM gpu_hours AS h
USING incoming AS i
WHERE h.cluster = i.cluster AND h.node = i.node AND h.gpu = i.gpu AND h.ts = i.ts AND h.metric = i.metric
    AND i.covered_s >= h.covered_s;
