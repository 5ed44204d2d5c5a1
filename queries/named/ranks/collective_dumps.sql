-- One row is an entry about a group of ranks in a rank's dump of the NCCL flight recorder, of dumps whose last entry lies in a time; of all runs, or of the run or job named.
SELECT run_id, session, job_id, reported_at, measure, rank, value
FROM rank_reports
WHERE cluster = $cluster AND program = 'nccl-flight-recorder' AND reported_at >= $since AND reported_at < $until
    AND ($run IS NULL OR run_id = $run OR job_id = $run)
ORDER BY run_id, session, reported_at, rank, measure;
