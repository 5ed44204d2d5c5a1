-- One row is an attempt on a node with the GPUs it held there. Accounting does not tell how many were held where: they are spread evenly, and where they do not divide the first nodes of the list get one more.
CREATE OR REPLACE VIEW attempt_nodes AS
WITH held AS (
    SELECT
        a.cluster,
        a.scheduler,
        a.job_id,
        a.submitted_at,
        UNNEST(l.nodes) AS node,
        UNNEST(generate_series(0, LEN(l.nodes) - 1)) AS place,
        LEN(l.nodes) AS n_nodes,
        -- Whole GPUs are spread as whole ones; parts of GPUs by the thousandth.
        CASE WHEN a.n_gpus % 1 = 0 THEN 1000 ELSE 1 END AS unit,
        CAST(a.n_gpus * 1000 AS BIGINT) // unit AS units
    FROM stored.attempts AS a
    JOIN node_lists AS l USING (node_list)
)
SELECT
    cluster,                                                                         -- cluster
    scheduler,                                                                       -- as in attempts
    job_id,                                                                          -- as in attempts
    submitted_at,                                                                    -- as in attempts
    node,                                                                            -- node
    CAST((units // n_nodes + CAST(place < units % n_nodes AS BIGINT)) * unit / 1000 AS DECIMAL(12, 3)) AS n_gpus, -- GPUs held on this node
    CASE WHEN units % n_nodes = 0 THEN 'accounting' ELSE 'assumed' END AS evidence   -- accounting, or assumed where an uneven split is not told
FROM held;
