-- One row is a node of a session with rank times in a window, and from when to when; of some runs.
SELECT run_id, session, node, MIN(started_at) AS since, MAX(ended_at) AS until
FROM rank_steps
WHERE cluster = $cluster AND started_at >= $since AND started_at < $until AND run_id IN (SELECT unnest($runs))
GROUP BY run_id, session, node
ORDER BY run_id, session, node;
