-- One row is how many GPUs of a cluster were in a state just before a moment.
SELECT state, SUM(gpus) AS gpus
FROM gpu_time
WHERE cluster = $cluster AND started_at < $until AND ended_at >= $until
GROUP BY state
ORDER BY state;
