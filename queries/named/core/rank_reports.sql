-- One row is a rank that a framework's own straggler detection listed in a window; of all runs, or of the run or job named.
SELECT run_id, session, program, reported_at, step, measure, place, rank, node, value
FROM rank_reports
WHERE cluster = $cluster AND reported_at >= $since AND reported_at < $until
    AND ($run IS NULL OR run_id = $run OR job_id = $run)
ORDER BY run_id, session, program, reported_at, measure, place, rank;
