-- One row is the time in which a cluster's Kubernetes nodes were observed: from the first condition to the last list of nodes; and
-- when its pods were listed first: before that pods may have been there that were gone by then.
SELECT
    MIN(c.since) AS started_at,
    GREATEST(MAX(c.last_seen_at), (SELECT MAX(seen_at) FROM object_lists WHERE cluster = $cluster AND kind = 'Node')) AS ended_at,
    (SELECT MIN(seen_at) FROM object_lists WHERE cluster = $cluster AND kind = 'Pod') AS pods_listed_at
FROM node_conditions AS c
WHERE c.cluster = $cluster AND c.condition IN ('Ready', 'Unschedulable');
