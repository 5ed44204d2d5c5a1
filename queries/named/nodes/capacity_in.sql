-- One row is a cluster's capacity within a window: the GPU-seconds of all nodes in its inventory, for the ledger to add up to.
SELECT
    SUM(
        CAST(
            gpus * (epoch_us(LEAST(ended_at, $until)) - epoch_us(GREATEST(started_at, $since))) * 0.000001
            AS DECIMAL(38, 9)
        )
    ) AS gpu_seconds
FROM capacity
WHERE cluster = $cluster AND ended_at > $since AND started_at < $until;
