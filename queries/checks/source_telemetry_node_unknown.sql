-- warn: telemetry of nodes that the inventory does not have; their activity counts for nothing (names differ?)
-- of: FROM gpu_hours
SELECT DISTINCT cluster, node
FROM gpu_hours
WHERE cluster IN (SELECT cluster FROM nodes)
    AND NOT EXISTS (SELECT 1 FROM nodes AS n WHERE n.cluster = gpu_hours.cluster AND n.node = gpu_hours.node)
ORDER BY cluster, node;
