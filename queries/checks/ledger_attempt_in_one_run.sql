-- stop: an attempt belongs to no run or to several, although its cluster was computed since it was loaded
SELECT a.cluster, a.scheduler, a.job_id, a.submitted_at, COUNT(r.run_id) AS runs
FROM stored.attempts AS a
JOIN computes AS c USING (cluster)
LEFT JOIN run_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
GROUP BY ALL
HAVING COUNT(r.run_id) <> 1;
