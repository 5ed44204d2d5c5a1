-- stop: a GPU has a metric of an hour more than once
-- of: FROM gpu_hours
SELECT cluster, node, gpu, ts, metric, COUNT(*) AS times
FROM gpu_hours
GROUP BY ALL
HAVING COUNT(*) > 1;
