-- stop: an attempt belongs to no run or to several, although its cluster was computed since it was loaded
WITH several AS (
    -- By digests, since a group for each of millions of keys is long; equal keys have equal digests.
    SELECT hash(cluster, scheduler, job_id, submitted_at) AS digest FROM run_attempts GROUP BY digest HAVING COUNT(*) > 1
),
suspects AS (
    SELECT cluster, scheduler, job_id, submitted_at
    FROM stored.attempts
    WHERE cluster IN (SELECT cluster FROM computes)
      AND hash(cluster, scheduler, job_id, submitted_at) IN (SELECT digest FROM several)
    UNION
    SELECT cluster, scheduler, job_id, submitted_at
    FROM stored.attempts
    ANTI JOIN run_attempts USING (cluster, scheduler, job_id, submitted_at)
    WHERE cluster IN (SELECT cluster FROM computes)
)
SELECT a.cluster, a.scheduler, a.job_id, a.submitted_at, COUNT(r.run_id) AS runs
FROM suspects AS a
LEFT JOIN run_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
GROUP BY ALL
HAVING COUNT(r.run_id) <> 1;
