-- One row is a node of a cluster's inventory with its GPU model and the partitions that it was ever in.
SELECT i.node, ANY_VALUE(i.gpu_model) AS gpu_model, ANY_VALUE(n.partitions) AS partitions
FROM (SELECT node, MAX(gpu_model) AS gpu_model FROM inventory WHERE cluster = $cluster GROUP BY node) AS i
LEFT JOIN (
    SELECT node, list_sort(list_distinct(flatten(list(partitions)))) AS partitions
    FROM nodes
    WHERE cluster = $cluster
    GROUP BY node
) AS n USING (node)
GROUP BY i.node
ORDER BY i.node;
