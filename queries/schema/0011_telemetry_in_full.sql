-- Telemetry of nodes, networks, filesystems and schedulers beside that of GPUs; what it says of health, and to whom.

-- These tables only declare columns (samples live in Parquet), so the one that was there is declared anew.
DROP TABLE raw.node_samples;

-- One row is a node, or a device of it, over a stretch of time. Base units, ratios 0 to 1, missing is no row.
CREATE TABLE raw.node_samples (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    metric              VARCHAR NOT NULL,      -- what was measured: cpu_busy, ib_received_bytes_per_s, fs_operations_per_s, ...
    device              VARCHAR NOT NULL,      -- port, interface, disk or mount; empty for the whole node
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning of the time the sample speaks for
    interval_s          FLOAT NOT NULL,        -- seconds it speaks for
    value               FLOAT NOT NULL         -- mean over that time; of counters the rate per second
);

-- One row is a scheduler's own count of something over a stretch of time, as its exporter tells it: a cross-check.
CREATE TABLE raw.cluster_samples (
    cluster             VARCHAR NOT NULL,      -- cluster
    metric              VARCHAR NOT NULL,      -- what was counted: gpus_allocated, gpus, nodes, nodes_down, jobs_running, ...
    device              VARCHAR NOT NULL,      -- partition, or state; empty for all of them
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning of the time the sample speaks for
    interval_s          FLOAT NOT NULL,        -- seconds it speaks for
    value               FLOAT NOT NULL         -- mean over that time
);

ALTER TABLE gpu_hours ADD COLUMN threshold DOUBLE; -- what above_s counts from (config: telemetry.thresholds); null where none is set
ALTER TABLE gpu_hours ADD COLUMN above_s DOUBLE; -- seconds at or above the threshold

DROP TABLE node_hours;

-- One row is a metric of a node, or of a device of it, in one hour.
CREATE TABLE node_hours (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    metric              VARCHAR NOT NULL,      -- metric of node_samples
    device              VARCHAR NOT NULL,      -- port, interface, disk or mount; empty for the whole node
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning of the hour
    mean                DOUBLE,                -- time-weighted mean
    max                 DOUBLE,                -- largest value
    p95                 DOUBLE,                -- 95th percentile
    threshold           DOUBLE,                -- what above_s counts from (config: telemetry.thresholds); null where none is set
    above_s             DOUBLE,                -- seconds at or above the threshold
    covered_s           DOUBLE NOT NULL        -- seconds of the hour with samples
);

ALTER TABLE health_events ADD COLUMN device VARCHAR; -- port, link, mount or condition, where one is to blame
ALTER TABLE health_events ADD COLUMN value DOUBLE; -- how many, or how much: errors counted, share of the time throttled; null where nothing is counted
ALTER TABLE health_events ADD COLUMN action VARCHAR; -- what the maker's catalogue asks for

-- One row is what health events of one node within 15 minutes of each other tell together. Computed.
CREATE TABLE health_incidents (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    started_at          TIMESTAMPTZ NOT NULL,  -- its first event
    ended_at            TIMESTAMPTZ NOT NULL,  -- its last event
    severity            VARCHAR NOT NULL,      -- the worst of its events: critical, warning or info
    n_events            BIGINT NOT NULL,       -- how many events
    kinds               VARCHAR NOT NULL,      -- what they were, the worst first: xid 79, ecc dbe, ...
    gpus                VARCHAR NOT NULL,      -- GPUs that they name, with commas; empty: none
    action              VARCHAR,               -- what is asked for by the worst of them
    n_attempts          BIGINT NOT NULL        -- attempts that it touches (see attempt_health)
);

-- One row is an incident and an attempt that held the node when it happened, or up to 5 minutes before. Computed.
CREATE TABLE attempt_health (
    cluster             VARCHAR NOT NULL,      -- incident, attempt
    node                VARCHAR NOT NULL,      -- incident
    started_at          TIMESTAMPTZ NOT NULL,  -- incident
    scheduler           VARCHAR NOT NULL,      -- attempt
    job_id              VARCHAR NOT NULL,      -- attempt
    submitted_at        TIMESTAMPTZ NOT NULL,  -- attempt
    n_events            BIGINT NOT NULL,       -- its events while the attempt held the node, or up to 5 minutes after
    severity            VARCHAR NOT NULL,      -- the worst of those
    at_end              BOOLEAN NOT NULL       -- one of them lies between 10 minutes before the attempt's end and 5 after it: it may be why
);

-- One row is an attempt and a metric of its nodes. A mean is value_s / observed_s; of a rate, value_s is the sum. Computed.
CREATE TABLE attempt_node_activity (
    cluster             VARCHAR NOT NULL,      -- cluster
    scheduler           VARCHAR NOT NULL,      -- attempt
    job_id              VARCHAR NOT NULL,      -- attempt
    submitted_at        TIMESTAMPTZ NOT NULL,  -- attempt
    metric              VARCHAR NOT NULL,      -- metric of node_samples
    device              VARCHAR NOT NULL,      -- port, interface, disk or mount; empty for the whole node
    n_nodes             BIGINT NOT NULL,       -- nodes of which there are samples
    observed_s          DOUBLE NOT NULL,       -- node-seconds of nodes that it had to itself, that samples speak for
    value_s             DOUBLE,                -- value x seconds of those: bytes or operations where the metric is a rate
    shared_s            DOUBLE NOT NULL,       -- node-seconds of nodes that it shared, or in hours known by their mean only within which somebody came or went: whose value it was cannot be told
    shared_value_s      DOUBLE                 -- value x seconds of those, of all that the node did
);

-- One row is what `trackside retention` took out. Nothing goes without one.
CREATE TABLE removals (
    removed_at          TIMESTAMPTZ NOT NULL,  -- when
    cluster             VARCHAR NOT NULL,      -- cluster
    table_name          VARCHAR NOT NULL,      -- table
    before              TIMESTAMPTZ NOT NULL,  -- rows before this time went
    rows                BIGINT NOT NULL        -- how many
);
