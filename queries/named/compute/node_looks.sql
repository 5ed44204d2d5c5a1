-- One row is the time in which a cluster's Kubernetes nodes were observed: from the first condition to the last list of nodes.
SELECT
    MIN(c.since) AS started_at,
    GREATEST(MAX(c.last_seen_at), (SELECT MAX(seen_at) FROM object_lists WHERE cluster = $cluster AND kind = 'Node')) AS ended_at
FROM node_conditions AS c
WHERE c.cluster = $cluster AND c.condition IN ('Ready', 'Unschedulable');
