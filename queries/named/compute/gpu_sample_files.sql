-- One row is a UTC day with files of GPU samples of a cluster, and their digests.
SELECT day, string_agg(sha256, ' ' ORDER BY sha256) AS made_of
FROM partitions
WHERE table_name = 'gpu_samples' AND cluster = $cluster AND removed_version IS NULL AND rows > 0
GROUP BY day
ORDER BY day;
