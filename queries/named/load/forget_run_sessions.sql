-- Writes run_sessions: takes out the sessions of a cluster that were under way on the UTC day `$day`.
DELETE FROM run_sessions
WHERE cluster = $cluster
    AND started_at < CAST(CAST($day AS DATE) + 1 AS TIMESTAMPTZ)
    AND ended_at >= CAST(CAST($day AS DATE) AS TIMESTAMPTZ);
