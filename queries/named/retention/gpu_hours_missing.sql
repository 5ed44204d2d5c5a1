-- One row is an hour of a time in which a GPU of a cluster has samples, and no roll-up of them.
WITH sampled AS (
    SELECT DISTINCT node, gpu, date_trunc('hour', ts) AS ts
    FROM gpu_samples
    WHERE cluster = $cluster AND ts >= $since AND ts < $until
),

known AS (
    SELECT node, gpu, ts FROM gpu_hours WHERE cluster = $cluster AND ts >= $since AND ts < $until
)

SELECT DISTINCT ts FROM sampled ANTI JOIN known USING (node, gpu, ts)
ORDER BY ts;
