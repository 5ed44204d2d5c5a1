-- One row is a node's place in the network from a time on: the path from the outermost switch or block to the innermost, as Slurm's
-- topology has it, else by the labels of the Kubernetes node, which are stored from the outermost to the innermost.
WITH labelled AS (
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
SELECT cluster, node, valid_from, 'labels' AS plugin, path
FROM labelled
ANTI JOIN (FROM node_topology WHERE cluster = $cluster) AS known USING (cluster, node)
WHERE len(path) > 0
ORDER BY node, valid_from;
