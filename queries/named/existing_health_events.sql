-- One row is a health event that a source told of one kind, of the GPUs in the frame `incoming`.
SELECT h.*
FROM health_events AS h
SEMI JOIN incoming AS i USING (cluster, node, gpu)
WHERE h.source = $source AND h.kind = $kind
ORDER BY h.cluster, h.node, h.gpu, h.ts, h.code;
