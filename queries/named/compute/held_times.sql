-- One row is an attempt of a cluster that held GPUs, or may have: when, how long of that it was suspended, on how many nodes, and a digest of all else that the ledger takes from it: who it is, its nodes, the GPUs on them, what of it is assumed, and what it does if it does not train (the frame `other_work`). A placement is a row of its own. As `attempt_nodes` has them node by node; in no particular order.
WITH lists AS (SELECT node_list, hash(nodes) AS digest, LEN(nodes) AS n_nodes FROM node_lists)
SELECT
    hash(
        a.scheduler,
        a.job_id,
        a.submitted_at,
        l.digest,
        a.n_gpus,
        a.gpus_from IN ('request', 'steps'),
        a.end_guessed IS NULL AND r.job_id IS NULL,
        o.kind
    ) AS digest,
    a.started_at,
    COALESCE(r.ended_at, a.ended_at) AS ended_at,
    a.suspended_s,
    l.n_nodes
FROM attempt_gpus AS a
JOIN lists AS l USING (node_list)
ANTI JOIN placements AS p USING (cluster, scheduler, job_id, submitted_at)
LEFT JOIN runaway_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
LEFT JOIN other_work AS o USING (cluster, scheduler, job_id, submitted_at)
WHERE a.cluster = $cluster AND a.started_at IS NOT NULL AND a.n_gpus IS DISTINCT FROM 0
UNION ALL
SELECT
    hash(
        p.scheduler,
        p.job_id,
        p.submitted_at,
        p.node,
        p.n_gpus,
        a.end_guessed IS NULL AND r.job_id IS NULL,
        o.kind
    ) AS digest,
    p.started_at,
    COALESCE(r.ended_at, p.ended_at, a.ended_at) AS ended_at,
    a.suspended_s,
    1 AS n_nodes
FROM placements AS p
JOIN stored.attempts AS a USING (cluster, scheduler, job_id, submitted_at)
LEFT JOIN runaway_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
LEFT JOIN other_work AS o USING (cluster, scheduler, job_id, submitted_at)
WHERE p.cluster = $cluster AND p.started_at IS NOT NULL AND p.n_gpus IS DISTINCT FROM 0;
