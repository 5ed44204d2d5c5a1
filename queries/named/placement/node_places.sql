-- One row is a node's place in the network from a time on: the path from the outermost switch or block to the innermost, as Slurm's
-- topology has it, else by the labels of the Kubernetes node, which are stored from the outermost to the innermost. An empty path is
-- that of a node which the network no longer had, or which had no such label any more: its place is unknown from then on.
WITH left_out AS (
    SELECT t.cluster, t.node, MIN(l.ts) AS valid_from, t.plugin
    FROM (
        SELECT *, LEAD(valid_from) OVER (PARTITION BY node ORDER BY valid_from) AS replaced_at
        FROM node_topology
        WHERE cluster = $cluster
    ) AS t
    JOIN whole_looks AS l
        ON l.cluster = t.cluster AND l.source = 'slurm.topology' AND l.ts > t.last_seen_at
        AND l.ts < COALESCE(t.replaced_at, 'infinity')
    GROUP BY t.cluster, t.node, t.valid_from, t.plugin
),
labelled AS (
    SELECT
        cluster,
        node,
        valid_from,
        list_transform(
            list_filter(
                labels,
                lambda label: regexp_matches(
                    label,
                    '^(network\.topology\.nvidia\.com|(fabric|accelerator)\.topograph\.run|topology\.k8s\.aws|ds\.coreweave\.com|' ||
                    '(backend|ib)\.coreweave\.cloud|cloud\.google\.com/gce-topology-.*|nvidia\.com/gpu\.clique)[/=]'
                )
            ),
            lambda label: regexp_extract(label, '=(.*)$', 1)
        ) AS path
    FROM nodes
    WHERE cluster = $cluster
)
SELECT cluster, node, valid_from, plugin, path
FROM node_topology
WHERE cluster = $cluster
UNION ALL
SELECT cluster, node, valid_from, plugin, [] AS path
FROM left_out
UNION ALL
SELECT cluster, node, valid_from, 'labels' AS plugin, path
FROM labelled
ANTI JOIN (FROM node_topology WHERE cluster = $cluster) AS known USING (cluster, node)
QUALIFY bool_or(len(path) > 0) OVER (PARTITION BY node)
ORDER BY node, valid_from;
