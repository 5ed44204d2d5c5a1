-- One row is a node of the frame `incoming` that the inventory or an attempt of its cluster names.
WITH listed AS (
    SELECT DISTINCT cluster, node_list FROM stored.attempts
),

known AS (
    SELECT cluster, node FROM nodes
    UNION ALL
    SELECT listed.cluster, UNNEST(l.nodes) AS node
    FROM listed
    JOIN node_lists AS l USING (node_list)
)

SELECT DISTINCT i.cluster, i.node
FROM incoming AS i
SEMI JOIN known AS k USING (cluster, node);
