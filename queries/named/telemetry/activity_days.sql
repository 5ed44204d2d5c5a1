-- One row is a UTC day of a cluster of which the activity of GPUs is stored, made of the files of samples that there are now.
SELECT a.day, a.hourly
FROM activity_days AS a
LEFT JOIN (
    SELECT day, string_agg(sha256, ' ' ORDER BY sha256) AS made_of
    FROM partitions
    WHERE table_name = 'gpu_samples' AND cluster = $cluster AND removed_version IS NULL AND rows > 0
    GROUP BY day
) AS f ON f.day = a.day
WHERE a.cluster = $cluster AND a.made_of IS NOT DISTINCT FROM f.made_of
ORDER BY a.day;
