-- One row is a UTC day of a cluster with telemetry of GPUs or nodes, in a time of whole days, with a record of its state, to detect changes: the digests of its files of samples, and a number made of all its hourly roll-ups.
WITH files AS (
    SELECT day, string_agg(table_name || ' ' || sha256, ' ' ORDER BY table_name, sha256) AS made_of
    FROM partitions
    WHERE table_name IN ('gpu_samples', 'node_samples') AND cluster = $cluster AND removed_version IS NULL AND rows > 0
        AND day >= $first AND day < $last
    GROUP BY day
),
hours AS (
    SELECT ts, hash(node, gpu, metric, ts, covered_s, active_s, mean) AS content FROM gpu_hours WHERE cluster = $cluster
    UNION ALL
    SELECT ts, hash(node, device, metric, ts, covered_s, mean) AS content FROM node_hours WHERE cluster = $cluster
),
rolled AS (
    SELECT CAST(make_timestamp(epoch_us(ts)) AS DATE) AS day, COUNT(*) || ' ' || bit_xor(content) AS made_of
    FROM hours
    WHERE ts >= make_timestamptz(epoch_us($first::TIMESTAMP)) AND ts < make_timestamptz(epoch_us($last::TIMESTAMP))
    GROUP BY day
),
beside AS (
    SELECT (SELECT COUNT(*) FROM raw.gpu_samples WHERE cluster = $cluster)
        + (SELECT COUNT(*) FROM raw.node_samples WHERE cluster = $cluster) AS n
)
SELECT
    COALESCE(f.day, r.day) AS day,
    concat_ws('|', COALESCE(f.made_of, '-'), COALESCE(r.made_of, '-'), (SELECT n FROM beside)) AS made_of
FROM files AS f
FULL JOIN rolled AS r ON f.day = r.day
ORDER BY day;
