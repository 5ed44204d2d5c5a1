-- Sums of the ledger by day, kept beside the days' fingerprints: windows of whole days are sums of them.

-- One row is a UTC day of a cluster in one category of the ledger. A day's rows add up to its capacity. Computed.
CREATE TABLE day_sums (
    cluster             VARCHAR NOT NULL,      -- cluster
    day                 DATE NOT NULL,         -- UTC day
    state               VARCHAR NOT NULL,      -- unavailable, idle or allocated
    category            VARCHAR NOT NULL,      -- as in gpu_time
    cause               VARCHAR,               -- as in gpu_time
    evidence            VARCHAR NOT NULL,      -- log, telemetry, accounting or assumed
    gpu_seconds         DECIMAL(38,9) NOT NULL, -- GPUs x seconds, exact
    straggling_gpu_seconds DECIMAL(38,9)       -- of these, lost to stragglers (an overlay, never added); null: nothing is known of stragglers
);

INSERT INTO day_sums BY NAME
SELECT
    cluster,
    CAST(make_timestamp(epoch_us(started_at)) AS DATE) AS day,
    state,
    category,
    cause,
    evidence,
    SUM(gpu_seconds) AS gpu_seconds,
    SUM(straggling_gpu_seconds) AS straggling_gpu_seconds
FROM gpu_time
GROUP BY ALL;
