-- What telemetry tells of users whose attempts share a node: sums of the whole computed time, so that no sample is read again.

ALTER TABLE attempt_activity ADD COLUMN unclear_s DOUBLE; -- of unattributed_s: GPU-seconds that may even have been another user's; null: computed by a version that did not keep it

-- One row is a user with samples of nodes that several attempts of that user alone shared. A mean is a sum divided by its seconds; null: no sample has it. Computed.
CREATE TABLE user_activity (
    cluster             VARCHAR NOT NULL,      -- cluster
    "user"              VARCHAR,               -- user; null: not known
    n_samples           BIGINT NOT NULL,       -- samples that begin while its attempts shared the node
    observed_s          DOUBLE NOT NULL,       -- GPU-seconds of GPUs that its attempts held together
    judged_s            DOUBLE NOT NULL,       -- of observed_s: seconds where it is known whether the GPU was active
    idle_s              DOUBLE,                -- of judged_s: seconds where it was idle (config: rules.active_...)
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
