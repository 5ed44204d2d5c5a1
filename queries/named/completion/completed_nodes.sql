-- One row is a node whose name begins with `prefix`.
SELECT DISTINCT node
FROM (SELECT node FROM nodes UNION ALL SELECT node FROM node_states)
WHERE starts_with(node, $prefix)
ORDER BY node
LIMIT 500;
