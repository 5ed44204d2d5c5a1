-- stop: the node list of an attempt is not written out (load the accounting again), or more than once, or with a node in it twice
SELECT a.node_list, COUNT(DISTINCT l.nodes) AS times, MIN(LEN(l.nodes)) AS nodes
FROM (SELECT DISTINCT node_list FROM stored.attempts WHERE node_list IS NOT NULL) AS a
LEFT JOIN node_lists AS l USING (node_list)
GROUP BY a.node_list
HAVING COUNT(l.nodes) <> 1 OR BOOL_OR(LEN(l.nodes) <> LEN(list_distinct(l.nodes)));
