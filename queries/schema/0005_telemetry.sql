-- What GPUs, nodes, networks, filesystems and exporters of schedulers measure. Samples live in Parquet, like steps.

-- One row is a GPU at one time. Base units, ratios 0 to 1, missing is null.
CREATE TABLE raw.gpu_samples (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    gpu                 VARCHAR NOT NULL,      -- index, or uuid of a MIG instance
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning of the interval that the sample covers
    interval_s          FLOAT NOT NULL,        -- length of the interval in seconds
    gpu_util            FLOAT,                 -- share of time with a kernel running (0-1)
    gr_engine_active    FLOAT,                 -- share of time the graphics or compute engine was active (0-1)
    sm_active           FLOAT,                 -- share of time an SM had a warp resident (0-1)
    tensor_active       FLOAT,                 -- share of cycles the tensor pipe was active (0-1)
    dram_active         FLOAT,                 -- share of cycles device memory was busy (0-1)
    memory_used_bytes   FLOAT,                 -- framebuffer in use
    power_w             FLOAT,                 -- power draw
    temperature_c       FLOAT,                 -- GPU temperature
    sm_clock_hz         FLOAT                  -- SM clock
);

-- One row is a node, or a device of it, over an interval. Base units, ratios 0 to 1, missing is no row.
CREATE TABLE raw.node_samples (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    metric              VARCHAR NOT NULL,      -- what was measured: cpu_busy, ib_received_bytes_per_s, fs_operations_per_s, ...
    device              VARCHAR NOT NULL,      -- port, interface, disk or mount; empty for the whole node
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning of the interval that the sample covers
    interval_s          FLOAT NOT NULL,        -- length of the interval in seconds
    value               FLOAT NOT NULL         -- mean over that time; of counters the rate per second
);

-- One row is a scheduler's own count over an interval, from its exporter: a cross-check.
CREATE TABLE raw.cluster_samples (
    cluster             VARCHAR NOT NULL,      -- cluster
    metric              VARCHAR NOT NULL,      -- what was counted: gpus_allocated, gpus, nodes, nodes_down, jobs_running, ...
    device              VARCHAR NOT NULL,      -- partition, or state; empty for all of them
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning of the interval that the sample covers
    interval_s          FLOAT NOT NULL,        -- length of the interval in seconds
    value               FLOAT NOT NULL         -- mean over that time
);

-- One row is a GPU in one hour.
CREATE TABLE gpu_hours (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    gpu                 VARCHAR NOT NULL,      -- GPU
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning of the hour
    metric              VARCHAR NOT NULL,      -- column of gpu_samples
    mean                DOUBLE,                -- time-weighted mean
    max                 DOUBLE,                -- largest value
    p95                 DOUBLE,                -- 95th percentile
    active_s            DOUBLE,                -- seconds above the activity threshold
    covered_s           DOUBLE NOT NULL,       -- seconds of the hour with samples
    threshold           DOUBLE,                -- what above_s counts from (config: telemetry.thresholds); null where none is set
    above_s             DOUBLE                 -- seconds at or above the threshold
);

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

-- One row is a hardware event: XID, ECC, row remap, NVLink, IB flap, thermal, Kubernetes condition.
CREATE TABLE health_events (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    gpu                 VARCHAR,               -- GPU, where one is affected
    ts                  TIMESTAMPTZ NOT NULL,  -- when
    kind                VARCHAR NOT NULL,      -- xid, ecc, row_remap, nvlink, ib, thermal, condition
    code                VARCHAR NOT NULL,      -- code within the kind (the XID)
    class               VARCHAR,               -- HW, APP, DRIVER, INFO, ... (a prior, not a fact)
    severity            VARCHAR,               -- critical, warning or info
    source              VARCHAR NOT NULL,      -- where it was read
    evidence            VARCHAR NOT NULL,      -- telemetry or accounting
    detail              VARCHAR,               -- text as it came
    device              VARCHAR,               -- port, link, mount or condition, where one is affected
    value               DOUBLE,                -- how many, or how much: errors counted, share of the time throttled; null where nothing is counted
    action              VARCHAR                -- the action that the maker's catalogue recommends
);
