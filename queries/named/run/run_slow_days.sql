-- One row is a UTC day on which kept steps of a run took longer than its ideal step, with the GPU-seconds that this took and those that it trained; the worst first.
SELECT
    CAST(g.started_at AS DATE) AS day,
    CAST(SUM(g.straggling_gpu_seconds) AS DOUBLE) AS slow_gpu_s,
    CAST(SUM(g.gpu_seconds) AS DOUBLE) AS productive_gpu_s
FROM gpu_time AS g
JOIN run_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
WHERE r.cluster = $cluster AND r.run_id = $run_id AND g.cluster = $cluster AND g.category = 'productive'
GROUP BY day
HAVING SUM(g.straggling_gpu_seconds) > 0
ORDER BY slow_gpu_s DESC, day
LIMIT 5;
