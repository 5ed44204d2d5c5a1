-- One row is a UTC day with GPU samples of a cluster, or with their hourly roll-ups, the last one first.
SELECT day
FROM partitions
WHERE table_name = 'gpu_samples' AND cluster = $cluster AND removed_version IS NULL AND rows > 0
UNION
SELECT DISTINCT CAST(make_timestamp(epoch_us(ts)) AS DATE) FROM gpu_hours WHERE cluster = $cluster
ORDER BY day DESC;
