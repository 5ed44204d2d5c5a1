-- stop: an attempt belongs to no run or to several, although its cluster was computed since it was loaded
WITH in_runs AS (
    SELECT cluster, COUNT(*) AS n, SUM(hash(scheduler, job_id, submitted_at)) AS digest FROM run_attempts GROUP BY cluster
),
loaded AS (
    SELECT cluster, COUNT(*) AS n, SUM(hash(scheduler, job_id, submitted_at)) AS digest
    FROM stored.attempts
    WHERE cluster IN (SELECT cluster FROM computes)
    GROUP BY cluster
),
-- Where both have the same keys as often, each attempt (of which each is there once) is in one run: nothing is looked up.
suspicious AS (
    SELECT l.cluster
    FROM loaded AS l
    LEFT JOIN in_runs AS r USING (cluster)
    WHERE l.n IS DISTINCT FROM r.n OR l.digest IS DISTINCT FROM r.digest
),
several AS (
    -- By digests, since a group for each of millions of keys is long; equal keys have equal digests.
    SELECT hash(cluster, scheduler, job_id, submitted_at) AS digest
    FROM run_attempts
    SEMI JOIN suspicious USING (cluster)
    GROUP BY digest
    HAVING COUNT(*) > 1
),
suspects AS (
    SELECT cluster, scheduler, job_id, submitted_at
    FROM stored.attempts
    SEMI JOIN suspicious USING (cluster)
    WHERE hash(cluster, scheduler, job_id, submitted_at) IN (SELECT digest FROM several)
    UNION
    SELECT cluster, scheduler, job_id, submitted_at
    FROM stored.attempts
    SEMI JOIN suspicious USING (cluster)
    ANTI JOIN run_attempts USING (cluster, scheduler, job_id, submitted_at)
)
SELECT a.cluster, a.scheduler, a.job_id, a.submitted_at, COUNT(r.run_id) AS runs
FROM suspects AS a
LEFT JOIN run_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
GROUP BY ALL
HAVING COUNT(r.run_id) <> 1;
