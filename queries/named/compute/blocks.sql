-- One row is a node of a cluster and the block it is in: the innermost one, as last reported.
SELECT cluster, node, path[-1] AS block
FROM node_topology
WHERE cluster = $cluster AND plugin = 'block'
QUALIFY ROW_NUMBER() OVER (PARTITION BY node ORDER BY valid_from DESC) = 1
ORDER BY node;
