-- What GPUs did, day by day: sums of a part of the computed time are those of its whole days and of samples at its ends.

-- One row is a UTC day of whose samples of GPUs, or hourly roll-ups, the sums are stored. Computed.
CREATE TABLE activity_days (
    cluster             VARCHAR NOT NULL,      -- cluster
    day                 DATE NOT NULL,         -- UTC day
    hourly              BOOLEAN NOT NULL,      -- some of it is known by the hour only: idle_sum is in millionths
    made_of             VARCHAR                -- digests of the files that it was made of; null: only roll-ups were left
);

-- One row is an attempt on a day with samples of its GPUs that begin on that day. Whole numbers, which add up exactly: GPU-milliseconds, and values x milliseconds in parts of their unit (ratios in millionths, watts in thousandths). Computed.
CREATE TABLE attempt_activity_days (
    cluster             VARCHAR NOT NULL,      -- cluster
    day                 DATE NOT NULL,         -- UTC day
    scheduler           VARCHAR NOT NULL,      -- attempt
    job_id              VARCHAR NOT NULL,      -- attempt
    submitted_at        TIMESTAMPTZ NOT NULL,  -- attempt
    n_samples           BIGINT NOT NULL,       -- samples that begin while it held the GPU
    observed            BIGINT NOT NULL,       -- time of its GPUs that samples cover
    unattributed        BIGINT NOT NULL,       -- observed time that may have been another attempt's
    unclear             BIGINT NOT NULL,       -- of it: that may even have been another user's
    hourly_known        BIGINT,                -- of observed: known by the hour only; null: nothing of the day is
    idle_known          BIGINT NOT NULL,       -- of observed: it is known whether the GPU was active
    idle_sum            BIGINT NOT NULL,       -- of idle_known: it was idle (config: rules.active_...)
    gpu_util_known      BIGINT NOT NULL,       -- time with a utilisation
    gpu_util_sum        BIGINT NOT NULL,       -- utilisation x time
    gr_engine_active_known BIGINT NOT NULL,    -- time with an engine activity
    gr_engine_active_sum BIGINT NOT NULL,      -- engine activity x time
    sm_active_known     BIGINT NOT NULL,       -- time with an SM activity
    sm_active_sum       BIGINT NOT NULL,       -- SM activity x time
    tensor_active_known BIGINT NOT NULL,       -- time with a tensor activity
    tensor_active_sum   BIGINT NOT NULL,       -- tensor activity x time
    dram_active_known   BIGINT NOT NULL,       -- time with a memory activity
    dram_active_sum     BIGINT NOT NULL,       -- memory activity x time
    power_w_known       BIGINT NOT NULL,       -- time with a power draw
    power_w_sum         BIGINT NOT NULL        -- power draw x time
);

-- One row is a user on a day with samples of nodes that several attempts of that user alone shared; numbers as in attempt_activity_days. Computed.
CREATE TABLE user_activity_days (
    cluster             VARCHAR NOT NULL,      -- cluster
    day                 DATE NOT NULL,         -- UTC day
    "user"              VARCHAR,               -- user; null: not known
    n_samples           BIGINT NOT NULL,       -- samples that begin while its attempts shared the node
    observed            BIGINT NOT NULL,       -- time of GPUs that its attempts held together
    hourly_known        BIGINT,                -- of observed: known by the hour only; null: nothing of the day is
    idle_known          BIGINT NOT NULL,       -- of observed: it is known whether the GPU was active
    idle_sum            BIGINT NOT NULL,       -- of idle_known: it was idle (config: rules.active_...)
    gpu_util_known      BIGINT NOT NULL,       -- time with a utilisation
    gpu_util_sum        BIGINT NOT NULL,       -- utilisation x time
    gr_engine_active_known BIGINT NOT NULL,    -- time with an engine activity
    gr_engine_active_sum BIGINT NOT NULL,      -- engine activity x time
    sm_active_known     BIGINT NOT NULL,       -- time with an SM activity
    sm_active_sum       BIGINT NOT NULL,       -- SM activity x time
    tensor_active_known BIGINT NOT NULL,       -- time with a tensor activity
    tensor_active_sum   BIGINT NOT NULL,       -- tensor activity x time
    dram_active_known   BIGINT NOT NULL,       -- time with a memory activity
    dram_active_sum     BIGINT NOT NULL,       -- memory activity x time
    power_w_known       BIGINT NOT NULL,       -- time with a power draw
    power_w_sum         BIGINT NOT NULL        -- power draw x time
);
