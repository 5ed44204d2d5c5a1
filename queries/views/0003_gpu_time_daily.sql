-- One row is a UTC day of a cluster in one category of the ledger. A day's rows add up to its capacity.
CREATE OR REPLACE VIEW gpu_time_daily AS
SELECT
    cluster,
    CAST(make_timestamp(epoch_us(started_at)) AS DATE) AS day,
    state,
    category,
    cause,
    evidence,
    SUM(gpu_seconds) AS gpu_seconds
FROM gpu_time
GROUP BY ALL;
