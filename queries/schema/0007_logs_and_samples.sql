-- What training runs say of themselves, and how long a sample speaks for.

-- One row is a process of a training run that logged: one `run` line of a run log.
CREATE TABLE run_sessions (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run, as the log names it
    scheduler           VARCHAR NOT NULL,      -- slurm, ...
    job_id              VARCHAR,               -- the scheduler's raw id, as the process saw it; null outside a scheduler
    restart_count       BIGINT,                -- how often the scheduler had restarted the job (SLURM_RESTART_COUNT)
    rank                BIGINT NOT NULL,       -- rank of the process
    started_at          TIMESTAMPTZ NOT NULL,  -- time of the `run` line (the training node's clock)
    ended_at            TIMESTAMPTZ NOT NULL,  -- latest time the session logged
    world               BIGINT,                -- number of ranks
    node                VARCHAR,               -- host name of the process
    gpu_model           VARCHAR,               -- GPU as the process saw it
    n_gpus              BIGINT,                -- GPUs that train
    dtype               VARCHAR,               -- data type of the matrix products: bf16, fp8, ...
    params              DOUBLE,                -- parameters
    params_active       DOUBLE,                -- parameters active per token (equals params for dense models)
    layers              BIGINT,                -- layers with attention
    heads               BIGINT,                -- attention heads
    head_dim            BIGINT,                -- size of a head
    seq_len             BIGINT,                -- sequence length
    flops_per_token     DOUBLE,                -- FLOP per token where the log states them itself
    flop_convention     VARCHAR,               -- how they are counted: palm_full, causal_half, ...
    origin              VARCHAR NOT NULL,      -- file it came from
    read_at             TIMESTAMPTZ            -- when what is here of it was last read (the loader's clock)
);

-- The table only declares columns (samples live in Parquet), so it is declared anew.
DROP TABLE raw.gpu_samples;

-- One row is a GPU at one time. Base units, ratios 0 to 1, missing is null.
CREATE TABLE raw.gpu_samples (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    gpu                 VARCHAR NOT NULL,      -- index, or uuid of a MIG instance
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning of the time the sample speaks for
    interval_s          FLOAT NOT NULL,        -- seconds it speaks for
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
