-- One row is the GPU-seconds of a cluster's window that attempts held; 0 where none did.
SELECT
    CAST(COALESCE(SUM(
        gpus * (epoch_us(LEAST(ended_at, $until)) - epoch_us(GREATEST(started_at, $since))) * 0.000001
    ), 0) AS DOUBLE) AS gpu_s
FROM gpu_time
WHERE cluster = $cluster AND ended_at > $since AND started_at < $until AND state = 'allocated';
