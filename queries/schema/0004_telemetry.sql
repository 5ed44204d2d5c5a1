-- What the hardware said. The large tables live in Parquet, one file per cluster and day; the tables of the
-- schema `raw` declare their columns, and the views of the same name in `main` read the files.
CREATE SCHEMA raw;

-- One row is a GPU at one time. Base units, ratios 0 to 1, missing is null.
CREATE TABLE raw.gpu_samples (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    gpu                 VARCHAR NOT NULL,      -- index, or uuid of a MIG instance
    ts                  TIMESTAMPTZ NOT NULL,  -- time of the sample
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

-- One row is a node at one time. Base units, missing is null.
CREATE TABLE raw.node_samples (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    ts                  TIMESTAMPTZ NOT NULL,  -- time of the sample
    metric              VARCHAR NOT NULL,      -- what was measured
    device              VARCHAR,               -- interface, mount or disk
    value               DOUBLE                 -- value in base units
);

-- One row is a training step, or a span of equal ones.
CREATE TABLE raw.steps (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    scheduler           VARCHAR,               -- attempt
    job_id              VARCHAR,               -- attempt
    submitted_at        TIMESTAMPTZ,           -- attempt
    step                BIGINT NOT NULL,       -- step number
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning of the step
    duration_s          DOUBLE,                -- its length in seconds
    tokens              DOUBLE,                -- tokens trained on
    loss                DOUBLE                 -- training loss
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
    covered_s           DOUBLE NOT NULL        -- seconds of the hour with samples
);

-- One row is a node in one hour.
CREATE TABLE node_hours (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning of the hour
    metric              VARCHAR NOT NULL,      -- metric of node_samples
    device              VARCHAR,               -- interface, mount or disk
    mean                DOUBLE,                -- time-weighted mean
    max                 DOUBLE,                -- largest value
    p95                 DOUBLE,                -- 95th percentile
    covered_s           DOUBLE NOT NULL        -- seconds of the hour with samples
);

-- One row is something that went wrong with hardware: XID, ECC, row remap, NVLink, IB flap, thermal, Kubernetes condition.
CREATE TABLE health_events (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    gpu                 VARCHAR,               -- GPU, where one is to blame
    ts                  TIMESTAMPTZ NOT NULL,  -- when
    kind                VARCHAR NOT NULL,      -- xid, ecc, row_remap, nvlink, ib, thermal, condition
    code                VARCHAR NOT NULL,      -- code within the kind (the XID)
    class               VARCHAR,               -- HW, APP, DRIVER, INFO, ... (a prior, not a fact)
    severity            VARCHAR,               -- critical, warning or info
    source              VARCHAR NOT NULL,      -- where it was read
    evidence            VARCHAR NOT NULL,      -- telemetry or accounting
    detail              VARCHAR                -- text as it came
);
