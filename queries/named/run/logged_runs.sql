-- One row is a run that is known from its log alone, the newest first; `matching` is how many there are, of `n_clusters` clusters.
WITH every AS (
    SELECT
        s.cluster,
        s.run_id,
        MAX(s.started_at) AS newest_at
    FROM run_sessions AS s
    WHERE NOT EXISTS (
        SELECT 1 FROM run_attempts AS r
        WHERE r.cluster = s.cluster AND (r.run_id = s.run_id OR (r.scheduler = s.scheduler AND r.job_id = s.job_id))
    )
    GROUP BY s.cluster, s.run_id
)
SELECT
    *,
    COUNT(*) OVER () AS matching,
    (SELECT COUNT(DISTINCT cluster) FROM every) AS n_clusters
FROM every
ORDER BY newest_at DESC, cluster, run_id
LIMIT $most OFFSET $skipped;
