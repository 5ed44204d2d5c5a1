-- One row is one of the newest runs, of a cluster or a user where these are not null, the newest first. Runs known from a log alone are among them.
WITH every AS (
    SELECT
        cluster,
        run_id,
        FALSE AS logged_only,
        name,
        "user",
        state,
        CAST(n_gpus AS DOUBLE) AS n_gpus,
        COALESCE(started_at, first_submitted_at) AS newest_at
    FROM runs
    UNION ALL
    SELECT
        s.cluster,
        s.run_id,
        TRUE AS logged_only,
        s.run_id AS name,
        NULL AS "user",
        'LOG' AS state,
        CAST(MAX(s.n_gpus) AS DOUBLE) AS n_gpus,
        MAX(s.started_at) AS newest_at
    FROM run_sessions AS s
    WHERE NOT EXISTS (
        SELECT 1 FROM run_attempts AS r
        WHERE r.cluster = s.cluster AND (r.run_id = s.run_id OR (r.scheduler = s.scheduler AND r.job_id = s.job_id))
    )
    GROUP BY s.cluster, s.run_id
)
SELECT * FROM every
WHERE ($cluster IS NULL OR cluster = $cluster) AND ($owner IS NULL OR "user" = $owner)
ORDER BY newest_at DESC, cluster, run_id
LIMIT $most;
