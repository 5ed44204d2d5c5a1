-- warn: an attempt has no end though it began more than 30 days ago, or its GPUs were given to others since. Of Slurm: was its end lost (sacctmgr show runawayjobs)? Of pods: do they still run (kubectl get pods -A)? Load that list. Of Determined: load a later export
-- of: FROM stored.attempts WHERE ended_at IS NULL AND started_at IS NOT NULL
WITH unended AS (
    SELECT a.cluster, a.scheduler, a.job_id, a.submitted_at, a.started_at, c.until
    FROM stored.attempts AS a
    JOIN computes AS c USING (cluster)
    LEFT JOIN runaway_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
    WHERE a.ended_at IS NULL AND a.started_at IS NOT NULL AND r.job_id IS NULL
),
given_away AS (
    SELECT DISTINCT u.cluster, u.scheduler, u.job_id, u.submitted_at
    FROM unended AS u
    JOIN attempt_node_times AS n USING (cluster, scheduler, job_id, submitted_at)
    JOIN attempt_node_times AS m ON n.cluster = m.cluster AND n.node = m.node
    JOIN (SELECT cluster, node, MAX(n_gpus) AS n_gpus FROM nodes GROUP BY cluster, node) AS i
        ON n.cluster = i.cluster AND n.node = i.node
    WHERE m.started_at > u.started_at
      AND (m.scheduler, m.job_id, m.submitted_at) <> (u.scheduler, u.job_id, u.submitted_at)
      AND (m.ended_at IS NULL OR m.ended_at >= $since)
      AND n.ended_at IS NULL
      AND n.evidence = 'accounting'
      AND m.evidence = 'accounting'
      AND n.n_gpus + m.n_gpus > i.n_gpus
)
SELECT u.cluster, u.scheduler, u.job_id, u.submitted_at, u.started_at, u.until, g.job_id IS NOT NULL AS given_to_others
FROM unended AS u
LEFT JOIN given_away AS g USING (cluster, scheduler, job_id, submitted_at)
WHERE u.started_at < u.until - INTERVAL 30 DAY OR g.job_id IS NOT NULL;
