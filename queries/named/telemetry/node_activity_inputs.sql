-- One row is a UTC day of a cluster with telemetry of nodes, the last one first, with a record of its state, to detect changes: the digests of its files of samples, and a number made of all its hourly roll-ups.
WITH files AS (
    SELECT day, string_agg(sha256, ' ' ORDER BY sha256) AS made_of
    FROM partitions
    WHERE table_name = 'node_samples' AND cluster = $cluster AND removed_version IS NULL AND rows > 0
    GROUP BY day
),
rolled AS (
    SELECT
        CAST(make_timestamp(epoch_us(ts)) AS DATE) AS day,
        COUNT(*) || ' ' || bit_xor(hash(node, device, metric, ts, covered_s, mean)) AS made_of
    FROM node_hours
    WHERE cluster = $cluster
    GROUP BY day
)
SELECT
    COALESCE(f.day, r.day) AS day,
    concat_ws('|', COALESCE(f.made_of, '-'), COALESCE(r.made_of, '-'), (SELECT COUNT(*) FROM raw.node_samples WHERE cluster = $cluster)) AS made_of
FROM files AS f
FULL JOIN rolled AS r ON f.day = r.day
ORDER BY day DESC;
