-- What training frameworks say of single ranks: the slowest and the fastest, or those that they flag.

-- One row is a rank in a report of a framework's own straggler detection. It lists some ranks only, so it is no measurement of all of them.
CREATE TABLE rank_reports (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run, as stated, else the name of the log
    session             VARCHAR NOT NULL,      -- job id and restart count, or empty
    job_id              VARCHAR,               -- the scheduler's raw id
    program             VARCHAR NOT NULL,      -- megatron, nvidia-resiliency-ext
    reported_at         TIMESTAMPTZ NOT NULL,  -- when (the log's clock)
    step                BIGINT,                -- last training step that the log had before; null: none
    measure             VARCHAR NOT NULL,      -- round_trip_s, flops_per_s, gpu_relative_score, sm_clock_hz, ...
    place               VARCHAR NOT NULL,      -- lowest, highest, flagged (called a straggler), listed (one of all ranks)
    rank                BIGINT NOT NULL,       -- rank, one GPU
    node                VARCHAR,               -- its node, where the report names it
    value               DOUBLE                 -- value, in the measure's unit; null: none was printed
);
