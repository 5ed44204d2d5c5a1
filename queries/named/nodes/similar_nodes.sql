-- One row is a node that a source of a cluster names: that of a name (`alike` is 1), and up to three that read much like it.
WITH listed AS (
    SELECT DISTINCT node_list FROM stored.attempts WHERE cluster = $cluster
),
every AS (
    SELECT node FROM nodes WHERE cluster = $cluster
    UNION
    SELECT node FROM node_states WHERE cluster = $cluster
    UNION
    SELECT UNNEST(l.nodes) FROM listed JOIN node_lists AS l USING (node_list)
    UNION
    SELECT node FROM health_events WHERE cluster = $cluster
    UNION
    SELECT node FROM rank_steps WHERE cluster = $cluster
)
SELECT node, IF(node = $node, 1.0, LEAST(jaro_winkler_similarity(lower(node), lower($node)), 0.999))::DOUBLE AS alike
FROM every
WHERE alike >= 0.86
ORDER BY alike DESC, node
LIMIT 4;
