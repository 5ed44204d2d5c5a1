-- One row is a session with rank times in a window: how many rows, of how many steps at most, and from when to when; of all runs, or of the run or job named.
SELECT
    run_id,
    session,
    run_id || '|' || session AS name,
    COUNT(*) AS n_rows,
    MAX(steps) AS steps_a_line,
    MIN(started_at) AS since,
    MAX(started_at) AS until
FROM rank_steps
WHERE cluster = $cluster AND started_at >= $since AND started_at < $until
    AND ($run IS NULL OR run_id = $run OR job_id = $run)
GROUP BY run_id, session
ORDER BY since, name;
