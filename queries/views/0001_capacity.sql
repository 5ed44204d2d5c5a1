-- One row is a node that existed for an interval, with the GPU-seconds the ledger has to account for there.
CREATE OR REPLACE VIEW capacity AS
SELECT
    cluster,
    node,
    started_at,
    ended_at,
    gpus,
    gpu_model,
    evidence,
    CAST(gpus * (epoch_us(ended_at) - epoch_us(started_at)) * 0.000001 AS DECIMAL(38, 9)) AS gpu_seconds
FROM inventory;
