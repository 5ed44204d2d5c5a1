-- One row is an attempt on a node with the GPUs it held there, the most at once. Accounting does not record how many were held where: they are spread evenly, and where they do not divide the first nodes of the list get one more. Null: how many it held is unknown (see attempts). Kubernetes records both: see placements.
CREATE OR REPLACE VIEW attempt_nodes AS
SELECT
    cluster,                                                                         -- cluster
    scheduler,                                                                       -- as in attempts
    job_id,                                                                          -- as in attempts
    submitted_at,                                                                    -- as in attempts
    node,                                                                            -- node
    n_gpus,                                                                          -- GPUs held on this node; null: unknown
    evidence                                                                         -- accounting; assumed where an uneven split is not recorded, or only what was requested is; unknown
FROM attempt_node_times
ANTI JOIN placements AS p USING (cluster, scheduler, job_id, submitted_at)
UNION ALL
SELECT
    cluster,
    scheduler,
    job_id,
    submitted_at,
    node,
    CASE WHEN COUNT(n_gpus) = COUNT(*) THEN MAX(n_gpus) END AS n_gpus,
    CASE WHEN COUNT(n_gpus) = COUNT(*) THEN 'accounting' ELSE 'unknown' END AS evidence
FROM placements
GROUP BY cluster, scheduler, job_id, submitted_at, node;
