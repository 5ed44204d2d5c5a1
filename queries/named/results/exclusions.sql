-- One row is a command line that was submitted within a window and excludes nodes, and the jobs of it.
SELECT cluster, submit_line, COUNT(DISTINCT job_id) AS n_jobs
FROM stored.attempts
WHERE cluster = $cluster
  AND submitted_at >= $since
  AND submitted_at < $until
  AND regexp_matches(submit_line, '\s(-x|--exclude[ =])')
GROUP BY cluster, submit_line
ORDER BY submit_line;
