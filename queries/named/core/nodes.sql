-- One row is a node's inventory as observed, as metrics read it.
-- An inventory shows all nodes of its cluster, so a node is gone (`gone_at`) from the first one on that lacks it; but one
-- of which records were refused may have had it among those, and until another one lacks it the node goes on.
WITH snapshots AS (
    SELECT ts FROM whole_looks WHERE cluster = $cluster AND source = 'slurm.nodes'
    UNION
    SELECT seen_at AS ts
    FROM object_lists
    WHERE cluster = $cluster AND kind = 'Node'
      AND NOT EXISTS (SELECT 1 FROM whole_looks WHERE cluster = $cluster AND source = 'slurm.nodes')
),
intervals AS (
    SELECT *, LEAD(valid_from) OVER (PARTITION BY node ORDER BY valid_from) AS next_from
    FROM nodes
    WHERE cluster = $cluster
)
SELECT
    s.cluster,
    s.node,
    s.valid_from,
    CASE
        WHEN s.next_from IS NULL AND l.ts IS NULL THEN MAX(s.last_seen_at) OVER ()
        ELSE s.last_seen_at
    END AS last_seen_at,
    CASE WHEN l.ts < COALESCE(s.next_from, 'infinity') THEN l.ts END AS gone_at,
    CAST(s.n_gpus * 1000 AS BIGINT) AS milli_gpus,
    s.gpu_model,
    s.partitions
FROM intervals AS s ASOF LEFT JOIN snapshots AS l ON s.last_seen_at < l.ts
ORDER BY s.node, s.valid_from;
