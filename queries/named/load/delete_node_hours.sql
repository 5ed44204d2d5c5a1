-- Writes node_hours: takes out the rows that the frame `incoming` replaces by as good or better ones (see
-- delete_gpu_hours).
DELETE FROM node_hours AS h
USING incoming AS i
WHERE h.ts BETWEEN $first AND $last
    AND h.cluster = i.cluster AND h.node = i.node AND h.metric = i.metric AND h.device = i.device AND h.ts = i.ts
    AND (
        i.covered_s > h.covered_s
        OR i.covered_s = h.covered_s AND (i.above_s IS NOT NULL OR h.above_s IS NULL)
    )
    AND (h.mean, h.max, h.p95, h.covered_s, h.threshold, h.above_s)
    IS DISTINCT FROM (i.mean, i.max, i.p95, i.covered_s, i.threshold, i.above_s);
