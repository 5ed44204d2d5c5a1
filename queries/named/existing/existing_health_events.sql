-- One row is a health event of a node in the frame `incoming`.
SELECT h.*
FROM health_events AS h
SEMI JOIN incoming AS i USING (cluster, node)
ORDER BY h.cluster, h.node, h.gpu, h.ts, h.code;
