-- Numbers, each with its definition, numerator, denominator, window and kind of evidence. Computed.

-- One row is one number about a cluster or a part of it in a window.
CREATE TABLE cluster_metrics (
    cluster             VARCHAR NOT NULL,      -- cluster
    metric              VARCHAR NOT NULL,      -- definition id, as in `trackside show --help`
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    dimension           VARCHAR NOT NULL,      -- what the subject is: cluster, user, partition, node, ...
    subject             VARCHAR NOT NULL,      -- which one
    unit                VARCHAR NOT NULL,      -- ratio, s, d, gpu_s, 1/gpu_d, ...
    value               DOUBLE,                -- the number; null means it cannot be told
    numerator           DOUBLE,                -- above the line
    denominator         DOUBLE,                -- below it
    n                   BIGINT,                -- how many events, runs or rows are behind it
    bound_low           DOUBLE,                -- what happened, if all we could not see was unproductive
    bound_high          DOUBLE,                -- ... if it was all productive
    ci_low              DOUBLE,                -- what the process would do again: lower end of the 95 % interval
    ci_high             DOUBLE,                -- upper end
    ci_method           VARCHAR,               -- how the interval was made
    evidence_log        DOUBLE,                -- share of the denominator known from run logs
    evidence_telemetry  DOUBLE,                -- ... from telemetry
    evidence_accounting DOUBLE,                -- ... from accounting
    evidence_assumed    DOUBLE,                -- ... assumed
    note                VARCHAR                -- what a reader must know
);

-- One row is one number about a run in a window. Columns as in cluster_metrics.
CREATE TABLE run_metrics (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    metric              VARCHAR NOT NULL,      -- definition id
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    unit                VARCHAR NOT NULL,      -- unit
    value               DOUBLE,                -- the number; null means it cannot be told
    numerator           DOUBLE,                -- above the line
    denominator         DOUBLE,                -- below it
    n                   BIGINT,                -- attempts
    bound_low           DOUBLE,                -- all unseen time unproductive
    bound_high          DOUBLE,                -- all unseen time productive
    evidence            VARCHAR NOT NULL,      -- weakest kind of evidence it rests on
    note                VARCHAR                -- what a reader must know
);

-- One row is an attempt that ended otherwise than by completing.
CREATE TABLE interruptions (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    scheduler           VARCHAR NOT NULL,      -- attempt
    job_id              VARCHAR NOT NULL,      -- attempt
    submitted_at        TIMESTAMPTZ NOT NULL,  -- attempt
    attempt_no          BIGINT NOT NULL,       -- number of the attempt in its run
    ended_at            TIMESTAMPTZ NOT NULL,  -- when
    state               VARCHAR NOT NULL,      -- final state of the attempt
    class               VARCHAR NOT NULL,      -- infrastructure, user, preemption, planned or timeout
    cause               VARCHAR NOT NULL,      -- node_fail, boot_fail, prolog, oom, failed, cancelled, ...
    node                VARCHAR,               -- node that is to blame, where it can be told
    n_nodes             BIGINT NOT NULL,       -- nodes held
    n_gpus              DECIMAL(12,3) NOT NULL, -- GPUs held
    runtime_s           DOUBLE NOT NULL,       -- seconds since its start
    incident            VARCHAR,               -- id shared by interruptions of one node within 15 minutes
    evidence            VARCHAR NOT NULL,      -- kind of evidence for the class
    detail              VARCHAR                -- the evidence in words
);

-- One row is a failure rate: events, exposure and intervals for one class, way of counting and size.
CREATE TABLE failure_rates (
    cluster             VARCHAR NOT NULL,      -- cluster
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    class               VARCHAR NOT NULL,      -- infrastructure, or unplanned (infrastructure and user)
    counted             VARCHAR NOT NULL,      -- attempts (interrupted jobs) or incidents (merged per node within 15 min)
    size                VARCHAR NOT NULL,      -- pooled, a bucket such as 513-1024, or around a claimed size
    gpus_low            DOUBLE,                -- smallest job in it
    gpus_high           DOUBLE,                -- largest
    n_failures          BIGINT NOT NULL,       -- events
    n_attempts          BIGINT NOT NULL,       -- attempts that gave exposure
    n_censored          BIGINT NOT NULL,       -- of these, without an event
    exposure_gpu_days   DOUBLE NOT NULL,       -- GPU-days run
    exposure_node_days  DOUBLE NOT NULL,       -- node-days run
    exposure_job_days   DOUBLE NOT NULL,       -- job-days run
    rate_per_gpu_day    DOUBLE,                -- failures per GPU-day
    rate_low            DOUBLE,                -- exact Poisson, 95 %
    rate_high           DOUBLE,                -- exact Poisson, 95 %
    jeffreys_low        DOUBLE,                -- Jeffreys, 95 %
    jeffreys_high       DOUBLE,                -- Jeffreys, 95 %
    mttf_d              DOUBLE,                -- mean time to failure of a job of this size in days; pooled: of one GPU
    mttf_low_d          DOUBLE,                -- exact Poisson, 95 %
    mttf_high_d         DOUBLE,                -- exact Poisson, 95 %; null means no upper limit
    note                VARCHAR                -- what a reader must know
);

-- One row is a run getting going again after an interruption.
CREATE TABLE restarts (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    scheduler           VARCHAR NOT NULL,      -- interrupted attempt
    job_id              VARCHAR NOT NULL,      -- interrupted attempt
    submitted_at        TIMESTAMPTZ NOT NULL,  -- interrupted attempt
    attempt_no          BIGINT NOT NULL,       -- number of the interrupted attempt
    class               VARCHAR NOT NULL,      -- class of the interruption
    cause               VARCHAR NOT NULL,      -- cause of the interruption
    n_gpus              DECIMAL(12,3) NOT NULL, -- GPUs of the interrupted attempt
    in_allocation       BOOLEAN NOT NULL,      -- restarted without leaving its nodes
    interrupted_at      TIMESTAMPTZ NOT NULL,  -- t2: End of the interrupted attempt
    eligible_at         TIMESTAMPTZ,           -- t3: next attempt may start
    restarted_at        TIMESTAMPTZ,           -- t4: next attempt started; null while it waits
    time_to_detect_s    DOUBLE,                -- t0 to t1, from logs
    time_to_terminate_s DOUBLE,                -- t1 to t2
    time_to_requeue_s   DOUBLE,                -- t2 to t3: Slurm's own hold after a requeue
    queue_s             DOUBLE,                -- t3 to t4: waiting for nodes
    time_to_job_restart_s DOUBLE,              -- t2 to t4: the headline "about 90 s"
    launch_s            DOUBLE,                -- t4 to t5, from logs
    load_s              DOUBLE,                -- t5 to t6, from logs
    warm_up_s           DOUBLE,                -- t6 to t7, from logs
    time_to_first_step_s DOUBLE,               -- t0 to t7, from logs
    time_to_recover_s   DOUBLE                 -- t0 to t8, catch-up included, from logs
);

-- One row is the model FLOP utilisation of a run under one convention.
CREATE TABLE mfu (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    convention          VARCHAR NOT NULL,      -- palm_full, causal_half, megatron_legacy, megatron_causal, 6N_only or executed
    dtype               VARCHAR NOT NULL,      -- data type of the peak
    peak_flops          DOUBLE NOT NULL,       -- dense peak per GPU
    numerator           DOUBLE NOT NULL,       -- FLOP of the kept steps
    denominator         DOUBLE NOT NULL,       -- peak FLOP of the GPUs in that time
    value               DOUBLE,                -- mean over productive steps
    median              DOUBLE,                -- median over productive steps
    n                   BIGINT NOT NULL,       -- steps
    ci_low              DOUBLE,                -- 95 % block bootstrap
    ci_high             DOUBLE,                -- 95 % block bootstrap
    note                VARCHAR                -- what a reader must know
);

-- One row is a node's failure record against what chance would give.
CREATE TABLE node_scores (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    failures            BIGINT NOT NULL,       -- attributed failures
    expected            DOUBLE NOT NULL,       -- expected by chance
    p_value             DOUBLE,                -- upper tail
    q_value             DOUBLE,                -- adjusted by Benjamini-Hochberg
    rate_eb             DOUBLE,                -- empirical Bayes rate per GPU-day
    families            VARCHAR[],             -- signal families that agree
    verdict             VARCHAR NOT NULL       -- lemon, suspect or none
);

-- One row is a GPU or node that held a run back.
CREATE TABLE stragglers (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    node                VARCHAR,               -- node
    gpu                 VARCHAR,               -- GPU
    started_at          TIMESTAMPTZ NOT NULL,  -- from
    ended_at            TIMESTAMPTZ NOT NULL,  -- to
    slowdown            DOUBLE NOT NULL,       -- S = T / T_ideal
    waste               DOUBLE NOT NULL,       -- 1 - 1/S
    verdict             VARCHAR NOT NULL       -- node, network, job_shape or unknown
);

-- One row is how well an attempt was placed.
CREATE TABLE placement (
    cluster             VARCHAR NOT NULL,      -- cluster
    scheduler           VARCHAR NOT NULL,      -- attempt
    job_id              VARCHAR NOT NULL,      -- attempt
    submitted_at        TIMESTAMPTZ NOT NULL,  -- attempt
    level               VARCHAR NOT NULL,      -- topology level
    spanned             BIGINT NOT NULL,       -- units spanned
    minimum             BIGINT NOT NULL        -- fewest possible
);

-- One row is a number that moved between two windows.
CREATE TABLE drift (
    cluster             VARCHAR NOT NULL,      -- cluster
    metric              VARCHAR NOT NULL,      -- metric
    subject             VARCHAR NOT NULL,      -- of what
    window_from         TIMESTAMPTZ NOT NULL,  -- later window, from
    window_until        TIMESTAMPTZ NOT NULL,  -- later window, to
    before              DOUBLE,                -- earlier value
    after               DOUBLE,                -- later value
    ci_low              DOUBLE,                -- 95 % interval of the difference
    ci_high             DOUBLE                 -- 95 % interval of the difference
);

-- One row is a verdict on a claim.
CREATE TABLE verdicts (
    cluster             VARCHAR NOT NULL,      -- cluster
    claim               VARCHAR NOT NULL,      -- id of the claim
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    quoted              VARCHAR NOT NULL,      -- the words used
    read_as             VARCHAR NOT NULL,      -- what is tested
    kind                VARCHAR NOT NULL,      -- delivered (bounds decide) or capability (intervals decide)
    metric              VARCHAR NOT NULL,      -- definition id
    unit                VARCHAR NOT NULL,      -- unit of the target and the value
    target              DOUBLE NOT NULL,       -- target
    value               DOUBLE,                -- value
    low                 DOUBLE,                -- lower end that decided
    high                DOUBLE,                -- upper end that decided; null means no upper limit
    n                   BIGINT,                -- events or runs behind it
    verdict             VARCHAR NOT NULL,      -- supported, refuted or undetermined
    needed              VARCHAR                -- evidence still needed to decide
);

-- One row is a person's correction of a cause, a node state or a run join.
CREATE TABLE adjudications (
    id                  VARCHAR NOT NULL,      -- id
    cluster             VARCHAR NOT NULL,      -- cluster
    made_at             TIMESTAMPTZ NOT NULL,  -- when
    author              VARCHAR NOT NULL,      -- who
    reason              VARCHAR NOT NULL,      -- why
    kind                VARCHAR NOT NULL,      -- cause, node_state or run_join
    subject             VARCHAR NOT NULL,      -- what is corrected
    before              VARCHAR,               -- value before
    after               VARCHAR,               -- value after; null for a withdrawal
    withdrawn_at        TIMESTAMPTZ            -- when it was taken back
);
