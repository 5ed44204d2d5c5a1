-- warn: telemetry of nodes that neither the inventory nor any attempt has; their activity counts for nothing (names differ?)
-- names: node
-- of: FROM gpu_hours
WITH strange AS (
    SELECT DISTINCT cluster, node
    FROM gpu_hours
    ANTI JOIN nodes USING (cluster, node)
),

held AS (
    SELECT DISTINCT a.cluster, UNNEST(l.nodes) AS node
    FROM (
        SELECT DISTINCT cluster, node_list
        FROM stored.attempts
        WHERE cluster IN (SELECT cluster FROM strange)
    ) AS a
    INNER JOIN node_lists AS l USING (node_list)
)

SELECT cluster, node
FROM strange
ANTI JOIN held USING (cluster, node)
WHERE cluster IN (SELECT cluster FROM nodes) OR cluster IN (SELECT cluster FROM held)
ORDER BY cluster, node;
