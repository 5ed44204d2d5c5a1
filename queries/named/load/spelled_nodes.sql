-- One row is a name in the frame `incoming` that no node of its cluster has, with the only node that differs from it in upper and lower case or in the domain alone.
WITH listed AS (
    SELECT DISTINCT cluster, node_list FROM stored.attempts
    WHERE cluster IN (SELECT cluster FROM incoming)
),

known AS (
    SELECT cluster, node FROM nodes
    UNION
    SELECT listed.cluster, UNNEST(l.nodes) AS node
    FROM listed
    JOIN node_lists AS l USING (node_list)
),

hosts AS (
    SELECT cluster, node, lower(split_part(node, '.', 1)) AS host, lower(regexp_extract(node, '\.(.*)$', 1)) AS domain
    FROM known
    WHERE regexp_matches(node, '[A-Za-z]') AND NOT contains(node, ':') -- no addresses
),

strange AS (
    SELECT cluster, node, lower(split_part(node, '.', 1)) AS host, lower(regexp_extract(node, '\.(.*)$', 1)) AS domain
    FROM incoming
    ANTI JOIN known USING (cluster, node)
)

SELECT s.cluster, s.node, min(h.node) AS spelled
FROM strange AS s
JOIN hosts AS h USING (cluster, host)
WHERE s.domain = '' OR h.domain = '' OR s.domain = h.domain
GROUP BY ALL
HAVING count(*) = 1;
