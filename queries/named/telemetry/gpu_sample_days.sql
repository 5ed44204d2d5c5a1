-- One row is a UTC day with GPU samples of a cluster, or with their hourly roll-ups, the last one first, and the digests of its files of samples (null: only roll-ups are left).
SELECT day, f.made_of
FROM (
    SELECT day, string_agg(sha256, ' ' ORDER BY sha256) AS made_of
    FROM partitions
    WHERE table_name = 'gpu_samples' AND cluster = $cluster AND removed_version IS NULL AND rows > 0
    GROUP BY day
) AS f
FULL JOIN (
    SELECT DISTINCT CAST(make_timestamp(epoch_us(ts)) AS DATE) AS day FROM gpu_hours WHERE cluster = $cluster
) AS h USING (day)
ORDER BY day DESC;
