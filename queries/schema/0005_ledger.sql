-- The one account everything else is read from. Computed.

-- One row is a node that existed, with its GPUs, for an interval: what the ledger has to add up to.
CREATE TABLE inventory (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    started_at          TIMESTAMPTZ NOT NULL,  -- from
    ended_at            TIMESTAMPTZ NOT NULL,  -- to
    gpus                DECIMAL(12,3) NOT NULL, -- GPUs it had
    gpu_model           VARCHAR,               -- their type
    evidence            VARCHAR NOT NULL       -- accounting (inventory read), or assumed (inferred from sightings, or before the first inventory)
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
    cause               VARCHAR,               -- why, where it can be told: node_down, suspended, ...
    evidence            VARCHAR NOT NULL,      -- log, telemetry, accounting or assumed
    gpus                DECIMAL(12,3) NOT NULL, -- GPUs
    gpu_seconds         DECIMAL(18,9) NOT NULL, -- GPUs x seconds, exact
    straggling_gpu_seconds DECIMAL(18,9)       -- of these, lost to stragglers (an overlay, never added)
);
