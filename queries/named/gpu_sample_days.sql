-- One row is a UTC day with GPU samples of a cluster, the last one first.
SELECT DISTINCT day
FROM partitions
WHERE table_name = 'gpu_samples' AND cluster = $cluster AND removed_version IS NULL
ORDER BY day DESC;
