-- What explains the numbers: where an ending can come from, who made room for whom, how sure a rate is, which nodes stand out.

ALTER TABLE interruptions ADD COLUMN domains VARCHAR; -- where it can come from as far as evidence tells: user, software or hardware; several with commas
ALTER TABLE interruptions ADD COLUMN events VARCHAR; -- what its nodes told around its end, the worst first: xid 79 (n03 gpu 2), ...; null where nothing did
ALTER TABLE interruptions ADD COLUMN made_room_for VARCHAR; -- of a preemption: run whose attempt started on its nodes right after
ALTER TABLE interruptions ADD COLUMN made_room_for_attempt BIGINT; -- number of that attempt
ALTER TABLE interruptions ADD COLUMN second_order BOOLEAN; -- of a preemption: that attempt came after an infrastructure interruption, whose cost this is, too; null where it cannot be told
ALTER TABLE interruptions ADD COLUMN adjudication VARCHAR; -- id of the person's correction that class, cause or node come from

ALTER TABLE failure_rates ADD COLUMN phi DOUBLE; -- how much more the daily counts vary than by chance: 1 for independent failures; null where it cannot be told
ALTER TABLE failure_rates ADD COLUMN phi_p DOUBLE; -- probability of such a phi by chance; below 0.05 the intervals allow for it

ALTER TABLE restarts ADD COLUMN detected_at TIMESTAMPTZ; -- t1: when anything first told of the failure
ALTER TABLE restarts ADD COLUMN detected_by VARCHAR; -- what told: kind of the health event or node state, or the attempt's end itself

ALTER TABLE run_sessions ADD COLUMN hidden BIGINT; -- width of the model
ALTER TABLE run_sessions ADD COLUMN ffn_hidden BIGINT; -- width of the MLP, in layers without experts
ALTER TABLE run_sessions ADD COLUMN kv_heads BIGINT; -- attention heads of keys and values
ALTER TABLE run_sessions ADD COLUMN vocab BIGINT; -- size of the vocabulary, with its padding
ALTER TABLE run_sessions ADD COLUMN gated BOOLEAN; -- the MLP has a gate (SwiGLU): three matrices, not two
ALTER TABLE run_sessions ADD COLUMN tied BOOLEAN; -- the input embedding is the output's
ALTER TABLE run_sessions ADD COLUMN attention_layers BIGINT; -- layers with full attention, where those are not all (hybrid models)
ALTER TABLE run_sessions ADD COLUMN experts BIGINT; -- routed experts of a layer; null for dense models
ALTER TABLE run_sessions ADD COLUMN top_k BIGINT; -- routed experts that a token is sent to
ALTER TABLE run_sessions ADD COLUMN shared_experts BIGINT; -- experts that every token goes through
ALTER TABLE run_sessions ADD COLUMN expert_ffn_hidden BIGINT; -- width of an expert
ALTER TABLE run_sessions ADD COLUMN expert_layers BIGINT; -- layers with experts, where those are not all
ALTER TABLE run_sessions ADD COLUMN expert_params DOUBLE; -- parameters of all routed experts of all layers
ALTER TABLE run_sessions ADD COLUMN recompute VARCHAR; -- activations computed again in the backward pass: none, selective or full

ALTER TABLE mfu ADD COLUMN mean DOUBLE; -- mean over steps, one step one vote (value is the ratio of sums)
ALTER TABLE mfu ADD COLUMN measure VARCHAR; -- mfu (FLOP that the model needs) or hfu (FLOP executed, recomputation included)

-- One row is how far telemetry can stand in for logs in a workload: MFU by logs against what tensor activity suggests. Computed.
CREATE TABLE mfu_proxies (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run; empty: all of a GPU model and data type
    gpu_model           VARCHAR NOT NULL,      -- GPU
    dtype               VARCHAR NOT NULL,      -- data type of the peak
    convention          VARCHAR NOT NULL,      -- FLOP convention of the logs' MFU
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    n                   BIGINT NOT NULL,       -- hours with both
    gpu_hours           DOUBLE NOT NULL,       -- GPU-hours with both
    mfu_log             DOUBLE,                -- MFU by the logs in these hours
    hfu_est             DOUBLE,                -- tensor activity x clock / peak clock in these hours
    slope               DOUBLE,                -- a of MFU = a x HFU, least squares through zero
    residual            DOUBLE,                -- root mean square of what the fit leaves, as MFU
    disagrees           BOOLEAN,               -- the logs say more than the tensor pipes can have done, or much less
    note                VARCHAR                -- what a reader must know
);

ALTER TABLE node_scores ADD COLUMN exposure_gpu_days DOUBLE; -- GPU-days that attempts ran on it
ALTER TABLE node_scores ADD COLUMN charged DOUBLE; -- failures charged to it, those of several nodes without one to blame by 1/n: ranks only
ALTER TABLE node_scores ADD COLUMN single_node_failures BIGINT; -- attributed failures of attempts on this node alone
ALTER TABLE node_scores ADD COLUMN multi_node_failures BIGINT; -- attributed failures of attempts on several nodes
ALTER TABLE node_scores ADD COLUMN hardware_kinds BIGINT; -- distinct critical kinds of health events (XIDs, ECC, links, ...)
ALTER TABLE node_scores ADD COLUMN out_count BIGINT; -- times it left service unplanned
ALTER TABLE node_scores ADD COLUMN excluded_by BIGINT; -- jobs whose users excluded it: shown, no evidence
ALTER TABLE node_scores ADD COLUMN detectable_factor DOUBLE; -- how many times the cluster's rate a node must have to be flagged in 8 of 10 cases
ALTER TABLE node_scores ADD COLUMN note VARCHAR; -- what a reader must know

-- One row is a run's checkpoint interval, as it was and as it would lose least. Computed.
CREATE TABLE checkpoint_advice (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    n_gpus              DECIMAL(12,3) NOT NULL, -- GPUs
    n_checkpoints       BIGINT NOT NULL,       -- checkpoints logged
    interval_s          DOUBLE,                -- median training time from one checkpoint to the next
    write_s             DOUBLE,                -- mean time that a checkpoint blocked training
    restart_s           DOUBLE,                -- mean time from an attempt's start to its first step
    mttf_s              DOUBLE,                -- mean time to failure at this size, from the cluster's rate
    mttf_low_s          DOUBLE,                -- its 95 % interval
    mttf_high_s         DOUBLE,                -- its 95 % interval; null means no upper limit
    optimal_s           DOUBLE,                -- interval that loses least at that rate
    optimal_low_s       DOUBLE,                -- ... at the rate's worse end
    optimal_high_s      DOUBLE,                -- ... at its better end; null means no upper limit
    loss_share          DOUBLE,                -- expected share of time lost to writes and to work done again, at the interval as it is
    optimal_loss_share  DOUBLE,                -- ... at the one that loses least
    gain_gpu_s          DOUBLE,                -- GPU-seconds that the change would have saved in the window
    note                VARCHAR                -- what a reader must know
);

-- One row is a day of the ledger and what it was computed from. A day whose inputs are the same is not computed again. Computed.
CREATE TABLE ledger_days (
    cluster             VARCHAR NOT NULL,      -- cluster
    day                 DATE NOT NULL,         -- UTC day
    inputs              VARCHAR NOT NULL,      -- fingerprint of everything that the day's rows depend on
    computed_at         TIMESTAMPTZ NOT NULL   -- when its rows were computed
);

ALTER TABLE verdicts ADD COLUMN scope VARCHAR; -- which part of the cluster it is about: partition, user, nodes, ...; null: all of it
ALTER TABLE verdicts ADD COLUMN excluded_s DOUBLE; -- seconds of the window that the claim leaves out
ALTER TABLE verdicts ADD COLUMN adjudications BIGINT; -- persons' corrections that count in it

ALTER TABLE adjudications ADD COLUMN withdrawn_by VARCHAR; -- who took it back
ALTER TABLE adjudications ADD COLUMN withdrawn_reason VARCHAR; -- why
