-- One row is how many GPUs of a cluster were in a state just before a moment; unknown: next to jobs of which it was not recorded how many they held.
SELECT CASE WHEN cause = 'gpus_unknown' THEN 'unknown' ELSE state END AS state, SUM(gpus) AS gpus
FROM gpu_time
WHERE cluster = $cluster AND started_at < $until AND ended_at >= $until
GROUP BY ALL
ORDER BY state;
