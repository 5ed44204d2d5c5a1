-- warn: for hours on end Slurm's exporter counted other GPUs as allocated than accounting records: is accounting loaded for all of that time, and of this cluster?
-- of: FROM partitions WHERE table_name = 'cluster_samples' AND removed_version IS NULL
WITH counted AS (
    -- The exporter's mean of an hour (of the epoch), where it was read for most of it.
    SELECT
        cluster,
        epoch_us(ts) // 3600000000 AS hour,
        SUM(value::DOUBLE * interval_s) / SUM(interval_s) AS gpus
    FROM cluster_samples
    WHERE metric = 'gpus_allocated' AND device = ''
    GROUP BY ALL
    HAVING SUM(interval_s) >= 3000
),
held AS (
    SELECT
        cluster,
        gpus::DOUBLE AS gpus,
        epoch_us(started_at) AS low,
        epoch_us(ended_at) AS high,
        UNNEST(range(low // 3600000000, (high - 1) // 3600000000 + 1)) AS hour
    FROM gpu_time
    WHERE state = 'allocated' AND cluster IN (SELECT cluster FROM counted)
),
accounted AS (
    SELECT
        cluster,
        hour,
        SUM(gpus * (LEAST(high, (hour + 1) * 3600000000) - GREATEST(low, hour * 3600000000))) / 3.6e9 AS gpus
    FROM held
    GROUP BY ALL
),
compared AS (
    -- Only hours that the ledger covers wholly.
    SELECT c.cluster, c.hour, c.gpus AS by_exporter, COALESCE(a.gpus, 0) AS by_accounting
    FROM counted AS c
    JOIN computes AS p
        ON c.cluster = p.cluster
        AND c.hour * 3600000000 >= epoch_us(p.since)
        AND (c.hour + 1) * 3600000000 <= epoch_us(p.until)
    LEFT JOIN accounted AS a ON c.cluster = a.cluster AND c.hour = a.hour
    -- GPUs that accounting does not record are another check's: source_without_gpus.
    WHERE c.cluster NOT IN (SELECT cluster FROM gpu_time WHERE cause = 'gpus_unknown')
),
apart AS (
    -- By a GPU, and by more than a twentieth: jobs that come and go between two readings are less.
    SELECT *, hour - ROW_NUMBER() OVER (PARTITION BY cluster ORDER BY hour) AS stretch
    FROM compared
    WHERE ABS(by_exporter - by_accounting) > GREATEST(1, 0.05 * GREATEST(by_exporter, by_accounting))
)
SELECT
    cluster,
    to_timestamp(MIN(hour) * 3600) AS started_at,
    to_timestamp((MAX(hour) + 1) * 3600) AS ended_at,
    ROUND(AVG(by_exporter), 1) AS gpus_by_exporter,
    ROUND(AVG(by_accounting), 1) AS gpus_by_accounting
FROM apart
GROUP BY cluster, stretch
HAVING COUNT(*) >= 3
ORDER BY ALL;
