-- One row is a Slurm node as a Kubernetes node for a time: a pod that slurmd runs in, on its host; or a host with the same name in both.
-- A pod that later lists of its namespace lack ended unobserved: what it was is unknown from its last observation on.
WITH looks AS (
    SELECT namespace, MAX(seen_at) AS look FROM object_lists WHERE cluster = $cluster AND kind = 'Pod' GROUP BY namespace
)

SELECT
    p.cluster,
    p.name AS node,
    p.node AS kubernetes_node,
    p.scheduled_at AS started_at,
    COALESCE(p.deleted_at, CASE WHEN GREATEST(l.look, e.look) > p.seen_at THEN p.seen_at END) AS ended_at,
    p.deletion_requested_at AS terminating_at,
    p.ended_at AS pod_ended_at
FROM pods AS p
LEFT JOIN looks AS l USING (namespace)
LEFT JOIN looks AS e ON e.namespace = '' -- of all namespaces
WHERE p.cluster = $cluster AND p.role = 'slurm_node' AND p.node IS NOT NULL AND p.scheduled_at IS NOT NULL
UNION ALL
SELECT
    c.cluster,
    c.node,
    c.node AS kubernetes_node,
    MIN(c.since) AS started_at,
    NULL AS ended_at,
    NULL AS terminating_at,
    NULL AS pod_ended_at
FROM node_conditions AS c
WHERE c.cluster = $cluster
  AND c.condition IN ('Ready', 'Unschedulable')
  AND (
    EXISTS (
        SELECT 1 FROM node_states AS s WHERE s.cluster = c.cluster AND s.node = c.node AND s.source LIKE 'slurm.%'
    )
    -- Only Slurm's inventory has partitions.
    OR EXISTS (
        SELECT 1 FROM nodes AS n WHERE n.cluster = c.cluster AND n.node = c.node AND n.partitions IS NOT NULL
    )
  )
GROUP BY c.cluster, c.node
ORDER BY ALL;
