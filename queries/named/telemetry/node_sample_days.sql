-- One row is a UTC day with samples of nodes of a cluster, or with their hourly roll-ups, and how many; the last one first.
SELECT day, SUM(n)::BIGINT AS n
FROM (
    SELECT day, SUM(rows) AS n
    FROM partitions
    WHERE table_name = 'node_samples' AND cluster = $cluster AND removed_version IS NULL AND rows > 0
    GROUP BY day
    UNION ALL
    SELECT CAST(make_timestamp(epoch_us(ts)) AS DATE) AS day, COUNT(*) AS n FROM node_hours WHERE cluster = $cluster GROUP BY ALL
) AS days
GROUP BY day
ORDER BY day DESC;
