-- One row is an attempt on a node as in attempt_nodes, with the attempt's own times: what joins of both cost is saved.
CREATE OR REPLACE VIEW attempt_node_times AS
WITH held AS (
    SELECT
        a.cluster,
        a.scheduler,
        a.job_id,
        a.submitted_at,
        a.started_at,
        a.ended_at,
        a.end_guessed,
        a.suspended_s,
        l.nodes,
        LEN(l.nodes) AS n_nodes,
        a.gpus_from,
        -- Whole GPUs are spread as whole ones; parts of GPUs by the thousandth.
        CASE WHEN a.n_gpus % 1 = 0 THEN 1000 ELSE 1 END AS unit,
        CAST(a.n_gpus * 1000 AS BIGINT) // unit AS units
    FROM attempt_gpus AS a
    JOIN node_lists AS l USING (node_list)
    ANTI JOIN placements AS p USING (cluster, scheduler, job_id, submitted_at)
),
-- Worked out once for an attempt, not for each of its nodes: there are millions of those.
spread AS (
    SELECT
        *,
        CAST((units // n_nodes) * unit / 1000 AS DECIMAL(12, 3)) AS least,
        CAST((units // n_nodes + 1) * unit / 1000 AS DECIMAL(12, 3)) AS most,
        units % n_nodes AS n_most,
        CASE
            WHEN units IS NULL THEN 'unknown'
            WHEN units % n_nodes = 0 AND gpus_from NOT IN ('request', 'steps') THEN 'accounting'
            ELSE 'assumed'
        END AS evidence
    FROM held
),
on_nodes AS (
    SELECT * EXCLUDE (nodes), UNNEST(nodes) AS node, GENERATE_SUBSCRIPTS(nodes, 1) AS place FROM spread
)
SELECT
    cluster,                                                                         -- cluster
    scheduler,                                                                       -- as in attempts
    job_id,                                                                          -- as in attempts
    submitted_at,                                                                    -- as in attempts
    node,                                                                            -- node
    CASE WHEN place <= n_most THEN most ELSE least END AS n_gpus,                    -- as in attempt_nodes
    evidence,                                                                        -- as in attempt_nodes
    started_at,                                                                      -- when it got them: as in attempts, but in placements
    ended_at,                                                                        -- when it lost them: as in attempts, but in placements
    end_guessed,                                                                     -- as in attempts
    suspended_s                                                                      -- as in attempts
FROM on_nodes
UNION ALL
SELECT
    p.cluster,
    p.scheduler,
    p.job_id,
    p.submitted_at,
    p.node,
    p.n_gpus,
    CASE WHEN p.n_gpus IS NULL THEN 'unknown' ELSE 'accounting' END AS evidence,
    p.started_at,
    COALESCE(p.ended_at, a.ended_at) AS ended_at,
    a.end_guessed,
    a.suspended_s
FROM placements AS p
JOIN stored.attempts AS a USING (cluster, scheduler, job_id, submitted_at);
