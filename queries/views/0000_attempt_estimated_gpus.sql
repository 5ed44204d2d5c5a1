-- One row is an attempt that held nodes and of which accounting records no GPUs, with its GPUs by the best other source: null where none has them.
CREATE OR REPLACE VIEW attempt_estimated_gpus AS
WITH unrecorded AS (
    SELECT
        a.cluster,
        a.scheduler,
        a.job_id,
        a.submitted_at,
        a.node_list,
        a.gpus_steps,
        j.gpus_held,
        COALESCE(j.gpus_asked, a.gpus_asked) AS gpus_asked,
        COALESCE(j.exclusive, a.exclusive) AS exclusive
    FROM stored.attempts AS a
    LEFT JOIN accounted_gpus AS t ON a.cluster = t.cluster
    LEFT JOIN job_gpus AS j
        ON a.cluster = j.cluster AND a.job_id = j.job_id AND date_trunc('second', a.submitted_at) = j.submitted_at
    WHERE a.n_gpus IS NULL
      AND (
          t.since IS NULL
          OR COALESCE(a.started_at, a.submitted_at) < t.since
          -- It held a node, and its row has no TRES at all: it says nothing about GPUs.
          OR (a.scheduler = 'slurm' AND COALESCE(a.alloc_tres, a.req_tres) IS NULL AND a.node_list IS NOT NULL)
      )
),
node_gpus AS (
    SELECT cluster, node, MIN(n_gpus) AS least, MAX(n_gpus) AS most FROM nodes GROUP BY cluster, node
),
of_nodes AS (
    SELECT h.cluster, h.node_list, SUM(g.least) AS least, SUM(g.most) AS most
    FROM (
        SELECT u.cluster, u.node_list, UNNEST(l.nodes) AS node
        FROM (SELECT DISTINCT cluster, node_list FROM unrecorded) AS u
        JOIN node_lists AS l USING (node_list)
    ) AS h
    LEFT JOIN node_gpus AS g USING (cluster, node)
    GROUP BY h.cluster, h.node_list
    HAVING BOOL_AND(g.node IS NOT NULL)
)
SELECT
    u.cluster,                                                                       -- cluster
    u.scheduler,                                                                     -- as in attempts
    u.job_id,                                                                        -- as in attempts
    u.submitted_at,                                                                  -- as in attempts
    CAST(CASE
        WHEN u.gpus_held IS NOT NULL THEN u.gpus_held
        WHEN o.most = 0 THEN 0
        WHEN u.exclusive AND o.least = o.most THEN o.most
        ELSE COALESCE(u.gpus_steps, u.gpus_asked)
    END AS DECIMAL(12, 3)) AS n_gpus,                                                -- GPUs held; null: unknown
    CASE
        WHEN u.gpus_held IS NOT NULL THEN 'slurmctld'
        WHEN o.most = 0 THEN 'nodes without GPUs'
        WHEN u.exclusive AND o.least = o.most THEN 'exclusive nodes'
        WHEN u.gpus_steps IS NOT NULL THEN 'steps'
        WHEN u.gpus_asked IS NOT NULL THEN 'request'
        ELSE 'unknown'
    END AS gpus_from                                                                 -- which source, see attempts
FROM unrecorded AS u
LEFT JOIN of_nodes AS o USING (cluster, node_list);
