-- One row is a session with rank times in a window, with the run that accounting joined its job to; of some runs of logs.
WITH began AS (
    SELECT cluster, scheduler, job_id, run_id, session, MIN(started_at) AS started_at
    FROM rank_steps
    WHERE cluster = $cluster AND started_at >= $since AND started_at < $until AND run_id IN (SELECT UNNEST($runs))
    GROUP BY ALL
)
SELECT b.run_id, b.session, MIN(r.run_id) AS joined
FROM began AS b
ASOF JOIN run_attempts AS r
    ON b.cluster = r.cluster AND b.scheduler = r.scheduler AND b.job_id = r.job_id AND b.started_at >= r.submitted_at
GROUP BY b.run_id, b.session
ORDER BY b.run_id, b.session;
