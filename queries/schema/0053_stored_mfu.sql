-- MFU over all of the computed time as `show mfu` prints it, so that no step is read again.

-- One row is MFU or HFU over the kept steps of all logged runs of a cluster, under a FLOP convention, in all of the computed time. Computed.
CREATE TABLE mfu_totals (
    cluster             VARCHAR NOT NULL,      -- cluster
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    metric              VARCHAR NOT NULL,      -- mfu (FLOP that the model needs) or hfu (FLOP executed, recomputation included)
    convention          VARCHAR NOT NULL,      -- how FLOP are counted
    value               DOUBLE,                -- ratio of the sums
    numerator           DOUBLE,                -- FLOP of the kept steps
    denominator         DOUBLE,                -- peak FLOP of their GPUs in that time
    n                   BIGINT NOT NULL,       -- steps
    ci_low              DOUBLE,                -- 95 % block bootstrap
    ci_high             DOUBLE,                -- 95 % block bootstrap
    note                VARCHAR,               -- convention, runs, GPU-hours, and caveats for the reader
    mean                DOUBLE,                -- unweighted mean over steps
    median              DOUBLE,                -- median over steps
    mfu_wall            DOUBLE                 -- over all time that the runs were allocated GPUs
);

-- One row is a logged run with its MFU over all time that it was allocated GPUs, under the configured FLOP convention, in all of the computed time. Computed.
CREATE TABLE run_mfu_wall (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    convention          VARCHAR NOT NULL,      -- how FLOP are counted
    value               DOUBLE,                -- FLOP of the kept steps over peak_flop
    flop                DOUBLE NOT NULL,       -- FLOP of the kept steps
    peak_flop           DOUBLE,                -- peak FLOP of all its GPU-seconds; null: no step has an MFU
    step_share          DOUBLE,                -- GPU-seconds of its kept steps over allocated_gpu_s
    allocated_gpu_s     DOUBLE NOT NULL,       -- GPU-seconds that it was allocated
    logged_gpu_s        DOUBLE NOT NULL        -- of these: that its log covers
);
