-- Writes gpu_hours: takes out the rows that the frame `incoming` replaces by as good or better ones: of as much of the
-- hour, or more. One with the seconds above a threshold is not replaced by one without.
DELETE FROM gpu_hours AS h
USING incoming AS i
WHERE h.ts BETWEEN $first AND $last
    AND h.cluster = i.cluster AND h.node = i.node AND h.gpu = i.gpu AND h.ts = i.ts AND h.metric = i.metric
    AND (
        i.covered_s > h.covered_s
        OR i.covered_s = h.covered_s AND (i.above_s IS NOT NULL OR h.above_s IS NULL)
    )
    AND (h.mean, h.max, h.p95, h.active_s, h.covered_s, h.threshold, h.above_s)
    IS DISTINCT FROM (i.mean, i.max, i.p95, i.active_s, i.covered_s, i.threshold, i.above_s);
