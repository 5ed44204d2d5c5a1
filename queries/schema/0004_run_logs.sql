-- What training runs log. Steps live in Parquet, one file per cluster and day: the tables of the schema `raw` declare the columns,
-- and the views of the same name in `main` read the files.

CREATE SCHEMA raw;

-- One row is a process of a training run that logged: one `run` line of a run log.
CREATE TABLE run_sessions (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run, as the log names it
    scheduler           VARCHAR NOT NULL,      -- slurm, ...
    job_id              VARCHAR,               -- the scheduler's raw id, as reported by the process; null outside a scheduler
    restart_count       BIGINT,                -- how often the scheduler had restarted the job (SLURM_RESTART_COUNT)
    rank                BIGINT NOT NULL,       -- rank of the process
    started_at          TIMESTAMPTZ NOT NULL,  -- time of the `run` line (the training node's clock)
    ended_at            TIMESTAMPTZ NOT NULL,  -- latest time the session logged
    world               BIGINT,                -- number of ranks
    node                VARCHAR,               -- host name of the process
    gpu_model           VARCHAR,               -- GPU model as reported by the process
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
    read_at             TIMESTAMPTZ,           -- when its log was last read (the loader's clock)
    hidden              BIGINT,                -- width of the model
    ffn_hidden          BIGINT,                -- width of the MLP, in layers without experts
    kv_heads            BIGINT,                -- attention heads of keys and values
    vocab               BIGINT,                -- size of the vocabulary, with its padding
    gated               BOOLEAN,               -- the MLP has a gate (SwiGLU): three matrices, not two
    tied                BOOLEAN,               -- the input embedding is the output's
    attention_layers    BIGINT,                -- layers with full attention, where those are not all (hybrid models)
    experts             BIGINT,                -- routed experts of a layer; null for dense models
    top_k               BIGINT,                -- routed experts that a token is sent to
    shared_experts      BIGINT,                -- experts that every token goes through
    expert_ffn_hidden   BIGINT,                -- width of an expert
    expert_layers       BIGINT,                -- layers with experts, where those are not all
    expert_params       DOUBLE,                -- parameters of all routed experts of all layers
    recompute           VARCHAR                -- activations computed again in the backward pass: none, selective or full
);

-- One row is something that happened inside a run: init, compile, data, checkpoint save or load, eval, custom, restart.
CREATE TABLE run_events (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning
    kind                VARCHAR NOT NULL,      -- what it was
    scheduler           VARCHAR,               -- attempt it happened in
    job_id              VARCHAR,               -- attempt it happened in
    submitted_at        TIMESTAMPTZ,           -- attempt it happened in
    ended_at            TIMESTAMPTZ,           -- end
    step                BIGINT,                -- training step it belongs to
    durable_at          TIMESTAMPTZ,           -- for a checkpoint: when it was safe
    blocking            BOOLEAN,               -- whether training waited for it
    detail              VARCHAR                -- free text
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
