-- One row is a node of a cluster that attempts held GPUs of, or may have: from when to when (null: one still does). As `attempt_nodes` has them; nodes of one list are seen together, so few rows are made of each list.
WITH held AS (
    SELECT
        a.node_list,
        CASE WHEN a.n_gpus % 1 = 0 THEN a.n_gpus ELSE a.n_gpus * 1000 END AS units,
        a.started_at,
        COALESCE(r.ended_at, a.ended_at) AS ended_at
    FROM attempt_gpus AS a
    ANTI JOIN placements AS p USING (cluster, scheduler, job_id, submitted_at)
    LEFT JOIN runaway_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
    WHERE a.cluster = $cluster AND a.started_at IS NOT NULL AND a.n_gpus IS DISTINCT FROM 0
),
-- Of fewer GPUs than nodes the first nodes of the list have one each.
of_lists AS (
    SELECT
        node_list,
        CAST(units AS BIGINT) AS n_first,
        MIN(started_at) AS started_at,
        CASE WHEN COUNT(ended_at) = COUNT(*) THEN MAX(ended_at) END AS ended_at
    FROM held
    GROUP BY node_list, n_first
),
seen AS (
    SELECT
        UNNEST(CASE WHEN o.n_first < LEN(l.nodes) THEN l.nodes[1 : o.n_first] ELSE l.nodes END) AS node,
        o.started_at,
        o.ended_at
    FROM of_lists AS o
    JOIN node_lists AS l USING (node_list)
    UNION ALL
    SELECT p.node, p.started_at, COALESCE(r.ended_at, p.ended_at, a.ended_at) AS ended_at
    FROM placements AS p
    JOIN stored.attempts AS a USING (cluster, scheduler, job_id, submitted_at)
    LEFT JOIN runaway_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
    WHERE p.cluster = $cluster AND p.started_at IS NOT NULL AND p.n_gpus IS DISTINCT FROM 0
)
SELECT
    $cluster AS cluster,
    node,
    MIN(started_at) AS started_at,
    CASE WHEN COUNT(ended_at) = COUNT(*) THEN MAX(ended_at) END AS ended_at
FROM seen
GROUP BY node
ORDER BY node;
