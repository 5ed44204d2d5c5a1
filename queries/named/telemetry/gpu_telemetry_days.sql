-- One row is a UTC day in a window for which a cluster has GPU samples or hourly roll-ups, and whether there are samples.
WITH sampled AS (
    SELECT DISTINCT day FROM partitions WHERE table_name = 'gpu_samples' AND cluster = $cluster AND removed_version IS NULL AND rows > 0
),
hours AS (
    SELECT DISTINCT CAST(make_timestamp(epoch_us(ts)) AS DATE) AS day FROM gpu_hours WHERE cluster = $cluster
)
SELECT COALESCE(s.day, h.day) AS day, s.day IS NOT NULL AS sampled
FROM sampled AS s
FULL JOIN hours AS h ON s.day = h.day
WHERE COALESCE(s.day, h.day) >= CAST($since::TIMESTAMPTZ AS DATE) AND COALESCE(s.day, h.day) <= CAST($until::TIMESTAMPTZ - INTERVAL 1 MICROSECOND AS DATE)
ORDER BY day;
