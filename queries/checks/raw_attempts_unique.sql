-- stop: an attempt is in the warehouse more than once
SELECT cluster, scheduler, job_id, submitted_at, COUNT(*) AS times
FROM attempts
GROUP BY ALL
HAVING COUNT(*) > 1;
