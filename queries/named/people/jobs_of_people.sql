-- One row is a user in an account of a cluster who submitted any job of Slurm before a moment: first and latest use. What waits or runs
-- is used. Work of Kubernetes and Determined needs no association.
SELECT
    a.cluster,
    COALESCE(a."user", '(unknown)') AS "user",
    COALESCE(a.account, '(unknown)') AS account,
    COUNT(*) AS n_attempts,
    MIN(a.submitted_at) AS first_job_at,
    MAX(LEAST(COALESCE(r.ended_at, a.ended_at, $until), $until)) AS last_active_at
FROM stored.attempts AS a
LEFT JOIN runaway_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
WHERE a.cluster = $cluster AND a.scheduler = 'slurm' AND a.submitted_at < $until
GROUP BY ALL
ORDER BY ALL;
