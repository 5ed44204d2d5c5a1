-- The ledger, from which all other numbers are derived. Computed.

-- One row is a computation of the derived tables: the time they cover and the constants they used.
CREATE TABLE computes (
    cluster             VARCHAR NOT NULL,      -- cluster
    since               TIMESTAMPTZ NOT NULL,  -- the ledger covers the time from here ...
    until               TIMESTAMPTZ NOT NULL,  -- ... to here: the last moment that the data cover
    computed_at         TIMESTAMPTZ NOT NULL,  -- when (the computer's clock)
    data_version        BIGINT NOT NULL,       -- version of the raw data it was computed from
    constants           JSON NOT NULL          -- every constant that the numbers depend on
);

-- One row is a node that existed, with its GPUs, for an interval: what the ledger has to add up to.
CREATE TABLE inventory (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    started_at          TIMESTAMPTZ NOT NULL,  -- from
    ended_at            TIMESTAMPTZ NOT NULL,  -- to
    gpus                DECIMAL(12,3) NOT NULL, -- GPUs it had
    gpu_model           VARCHAR,               -- their type
    evidence            VARCHAR NOT NULL       -- accounting (inventory read), or assumed (inferred from observations, or before the first inventory)
);

-- One row is GPUs of a node in one category for an interval within one UTC day. Every GPU-second of capacity is in exactly one row.
CREATE TABLE gpu_time (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    scheduler           VARCHAR,               -- attempt that held the GPUs; null when none did
    job_id              VARCHAR,               -- attempt
    submitted_at        TIMESTAMPTZ,           -- attempt
    started_at          TIMESTAMPTZ NOT NULL,  -- from
    ended_at            TIMESTAMPTZ NOT NULL,  -- to
    state               VARCHAR NOT NULL,      -- unavailable, idle or allocated
    category            VARCHAR NOT NULL,      -- maintenance, down, drained, unknown; no_demand, pending_demand; productive, lost, startup, checkpoint, stalled, teardown, other_work, unattributed
    cause               VARCHAR,               -- why, where it is known: node_down, suspended, ...
    evidence            VARCHAR NOT NULL,      -- log, telemetry, accounting or assumed
    gpus                DECIMAL(12,3) NOT NULL, -- GPUs
    gpu_seconds         DECIMAL(18,9) NOT NULL, -- GPUs x seconds, exact
    straggling_gpu_seconds DECIMAL(18,9)          -- of these, lost to stragglers (an overlay, never added)
);

-- One row is a day of the ledger and what it was computed from. A day whose inputs are the same is not computed again. Computed.
CREATE TABLE ledger_days (
    cluster             VARCHAR NOT NULL,      -- cluster
    day                 DATE NOT NULL,         -- UTC day
    inputs              VARCHAR NOT NULL,      -- fingerprint of everything that the day's rows depend on
    computed_at         TIMESTAMPTZ NOT NULL   -- when its rows were computed
);
