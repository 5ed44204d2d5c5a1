-- What the GPUs of attempts did, from their samples. Computed.

-- One row is an attempt of whose GPUs there are samples. A mean is a sum divided by its seconds; null: no sample told it.
CREATE TABLE attempt_activity (
    cluster             VARCHAR NOT NULL,      -- cluster
    scheduler           VARCHAR NOT NULL,      -- attempt
    job_id              VARCHAR NOT NULL,      -- attempt
    submitted_at        TIMESTAMPTZ NOT NULL,  -- attempt
    verification        BOOLEAN NOT NULL,      -- it checks nodes (config: rules.other_work), and is no utilisation
    n_samples           BIGINT NOT NULL,       -- samples that begin while it held the GPU
    observed_s          DOUBLE NOT NULL,       -- GPU-seconds of its GPUs that samples speak for
    unattributed_s      DOUBLE NOT NULL,       -- GPU-seconds observed on nodes that it shared, or of parts of GPUs, or in hours known by their mean only within which somebody came or went: which of it is its own is not told
    judged_s            DOUBLE NOT NULL,       -- of observed_s: whether the GPU was active is known
    idle_s              DOUBLE,                -- of judged_s: it was not (config: rules.active_...)
    gpu_util_s          DOUBLE NOT NULL,       -- GPU-seconds with a utilisation
    gpu_util_sum        DOUBLE,                -- utilisation (0-1) x seconds
    gr_engine_active_s  DOUBLE NOT NULL,       -- GPU-seconds with an engine activity
    gr_engine_active_sum DOUBLE,               -- engine activity (0-1) x seconds
    sm_active_s         DOUBLE NOT NULL,       -- GPU-seconds with an SM activity
    sm_active_sum       DOUBLE,                -- SM activity (0-1) x seconds
    tensor_active_s     DOUBLE NOT NULL,       -- GPU-seconds with a tensor activity
    tensor_active_sum   DOUBLE,                -- tensor activity (0-1) x seconds
    dram_active_s       DOUBLE NOT NULL,       -- GPU-seconds with a memory activity
    dram_active_sum     DOUBLE,                -- memory activity (0-1) x seconds
    power_s             DOUBLE NOT NULL,       -- GPU-seconds with a power draw
    energy_j            DOUBLE                 -- energy in that time, in joules: power x seconds
);
