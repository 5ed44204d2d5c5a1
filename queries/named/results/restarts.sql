-- One row is a run getting going again after an interruption in the window.
SELECT * FROM restarts
WHERE cluster = $cluster AND interrupted_at > $since AND interrupted_at <= $until
ORDER BY interrupted_at, job_id, submitted_at;
