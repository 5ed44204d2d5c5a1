-- Numbers, each with its definition, numerator, denominator, window and kind of evidence (computed), and people's corrections.

-- One row is one number about a cluster or a part of it in a window.
CREATE TABLE cluster_metrics (
    cluster             VARCHAR NOT NULL,      -- cluster
    metric              VARCHAR NOT NULL,      -- definition id, as in `trackside show --help`
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    dimension           VARCHAR NOT NULL,      -- what the subject is: cluster, user, partition, node, ...; long_runs: the cluster's runs of at least 24 h
    subject             VARCHAR NOT NULL,      -- which one
    unit                VARCHAR NOT NULL,      -- ratio, s, d, gpu_s, 1/gpu_d, ...
    value               DOUBLE,                -- the number; null means that it is unknown
    numerator           DOUBLE,                -- numerator of the value
    denominator         DOUBLE,                -- denominator of the value
    n                   BIGINT,                -- how many events, runs or rows are behind it
    bound_low           DOUBLE,                -- the value if all unobserved time was unproductive
    bound_high          DOUBLE,                -- ... if it was all productive
    ci_low              DOUBLE,                -- lower end of the 95 % confidence interval
    ci_high             DOUBLE,                -- upper end
    ci_method           VARCHAR,               -- how the interval was made
    evidence_log        DOUBLE,                -- share of the denominator known from run logs
    evidence_telemetry  DOUBLE,                -- ... from telemetry
    evidence_accounting DOUBLE,                -- ... from accounting
    evidence_assumed    DOUBLE,                -- ... assumed
    note                VARCHAR                -- caveats for the reader
);

-- One row is one number about a run in a window. Columns as in cluster_metrics.
CREATE TABLE run_metrics (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    metric              VARCHAR NOT NULL,      -- definition id
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    unit                VARCHAR NOT NULL,      -- unit
    value               DOUBLE,                -- the number; null means that it is unknown
    numerator           DOUBLE,                -- numerator of the value
    denominator         DOUBLE,                -- denominator of the value
    n                   BIGINT,                -- attempts
    bound_low           DOUBLE,                -- the value if all unobserved time was unproductive
    bound_high          DOUBLE,                -- ... if it was all productive
    evidence            VARCHAR NOT NULL,      -- weakest kind of evidence it rests on
    note                VARCHAR                -- caveats for the reader
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
    node                VARCHAR,               -- node that caused it, where it is known
    n_nodes             BIGINT NOT NULL,       -- nodes held
    n_gpus              DECIMAL(12,3),         -- GPUs held
    runtime_s           DOUBLE NOT NULL,       -- seconds since its start
    incident            VARCHAR,               -- id shared by interruptions of one node within 15 minutes
    evidence            VARCHAR NOT NULL,      -- kind of evidence for the class
    detail              VARCHAR,               -- the evidence as text
    domains             VARCHAR,               -- possible origins by the evidence: user, software or hardware; several with commas
    events              VARCHAR,               -- health events of its nodes around its end, the worst first: xid 79 (n03 gpu 2), ...; null without any
    made_room_for       VARCHAR,               -- of a preemption: run whose attempt started on its nodes right after
    made_room_for_attempt BIGINT,                -- number of that attempt
    second_order        BOOLEAN,               -- of a preemption: that attempt came after an infrastructure interruption, whose cost this is, too; null where that is unknown
    adjudication        VARCHAR                -- id of the person's correction that class, cause or node come from
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
    note                VARCHAR,               -- caveats for the reader
    phi                 DOUBLE,                -- how much more the daily counts vary than by chance: 1 for independent failures; null where that is unknown
    phi_p               DOUBLE                 -- probability of such a phi by chance; below 0.05 the intervals allow for it
);

-- One row is a restart of a run after an interruption.
CREATE TABLE restarts (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    scheduler           VARCHAR NOT NULL,      -- interrupted attempt
    job_id              VARCHAR NOT NULL,      -- interrupted attempt
    submitted_at        TIMESTAMPTZ NOT NULL,  -- interrupted attempt
    attempt_no          BIGINT NOT NULL,       -- number of the interrupted attempt
    class               VARCHAR NOT NULL,      -- class of the interruption
    cause               VARCHAR NOT NULL,      -- cause of the interruption
    n_gpus              DECIMAL(12,3),         -- GPUs of the interrupted attempt
    in_allocation       BOOLEAN NOT NULL,      -- restarted without leaving its nodes
    interrupted_at      TIMESTAMPTZ NOT NULL,  -- t2: End of the interrupted attempt
    eligible_at         TIMESTAMPTZ,           -- t3: next attempt may start
    restarted_at        TIMESTAMPTZ,           -- t4: next attempt started; null while it waits
    time_to_detect_s    DOUBLE,                -- t0 to t1, from logs
    time_to_terminate_s DOUBLE,                -- t1 to t2
    time_to_requeue_s   DOUBLE,                -- t2 to t3: Slurm's own hold after a requeue
    queue_s             DOUBLE,                -- t3 to t4: waiting for nodes
    time_to_job_restart_s DOUBLE,                -- t2 to t4: the headline "about 90 s"
    launch_s            DOUBLE,                -- t4 to t5, from logs
    load_s              DOUBLE,                -- t5 to t6, from logs
    warm_up_s           DOUBLE,                -- t6 to t7, from logs
    time_to_first_step_s DOUBLE,                -- t0 to t7, from logs
    time_to_recover_s   DOUBLE,                -- t0 to t8, catch-up included, from logs
    detected_at         TIMESTAMPTZ,           -- t1: when the failure was first reported
    detected_by         VARCHAR                -- what reported it: kind of the health event or node state, or the attempt's end itself
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
    note                VARCHAR,               -- caveats for the reader
    mean                DOUBLE,                -- unweighted mean over steps (value is the ratio of sums)
    measure             VARCHAR                -- mfu (FLOP that the model needs) or hfu (FLOP executed, recomputation included)
);

-- One row is how well telemetry can replace logs for a workload: MFU by logs against the estimate from tensor activity. Computed.
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
    residual            DOUBLE,                -- root mean square of the residuals, as MFU
    disagrees           BOOLEAN,               -- the logs' FLOP are more than the tensor pipes can have done, or much less
    note                VARCHAR                -- caveats for the reader
);

-- One row is a node's failures against the number expected by chance.
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
    verdict             VARCHAR NOT NULL,      -- lemon, suspect or none
    exposure_gpu_days   DOUBLE,                -- GPU-days that attempts ran on it
    charged             DOUBLE,                -- failures charged to it, those of several nodes without a known one by 1/n: for ranking only
    single_node_failures BIGINT,                -- attributed failures of attempts on this node alone
    multi_node_failures BIGINT,                -- attributed failures of attempts on several nodes
    hardware_kinds      BIGINT,                -- distinct critical kinds of health events (XIDs, ECC, links, ...)
    out_count           BIGINT,                -- times it left service unplanned
    excluded_by         BIGINT,                -- jobs whose users excluded it: shown, no evidence
    detectable_factor   DOUBLE,                -- how many times the cluster's rate a node must have to be flagged in 8 of 10 cases
    note                VARCHAR                -- caveats for the reader
);

-- One row is a run's checkpoint interval: the actual one and the one with the least loss. Computed.
CREATE TABLE checkpoint_advice (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    n_gpus              DECIMAL(12,3),         -- GPUs
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
    loss_share          DOUBLE,                -- expected share of time lost to writes and to work done again, at the actual interval
    optimal_loss_share  DOUBLE,                -- ... at the optimal interval
    gain_gpu_s          DOUBLE,                -- GPU-seconds that the change would have saved in the window
    note                VARCHAR                -- caveats for the reader
);

-- One row is an attempt with samples of its GPUs. A mean is a sum divided by its seconds; null: no sample has it.
CREATE TABLE attempt_activity (
    cluster             VARCHAR NOT NULL,      -- cluster
    scheduler           VARCHAR NOT NULL,      -- attempt
    job_id              VARCHAR NOT NULL,      -- attempt
    submitted_at        TIMESTAMPTZ NOT NULL,  -- attempt
    verification        BOOLEAN NOT NULL,      -- it is a check of nodes (config: rules.other_work), which is not counted as utilisation
    n_samples           BIGINT NOT NULL,       -- samples that begin while it held the GPU
    observed_s          DOUBLE NOT NULL,       -- GPU-seconds of its GPUs that samples cover
    unattributed_s      DOUBLE NOT NULL,       -- GPU-seconds observed on nodes that it shared, or of parts of GPUs, or in hours with only a mean in which another attempt started or ended: its own share is unknown
    judged_s            DOUBLE NOT NULL,       -- of observed_s: seconds where it is known whether the GPU was active
    idle_s              DOUBLE,                -- of judged_s: seconds where it was idle (config: rules.active_...)
    gpu_util_s          DOUBLE NOT NULL,       -- GPU-seconds with a utilisation
    gpu_util_sum        DOUBLE,                -- utilisation (0-1) x seconds
    gr_engine_active_s  DOUBLE NOT NULL,       -- GPU-seconds with an engine activity
    gr_engine_active_sum DOUBLE,                -- engine activity (0-1) x seconds
    sm_active_s         DOUBLE NOT NULL,       -- GPU-seconds with an SM activity
    sm_active_sum       DOUBLE,                -- SM activity (0-1) x seconds
    tensor_active_s     DOUBLE NOT NULL,       -- GPU-seconds with a tensor activity
    tensor_active_sum   DOUBLE,                -- tensor activity (0-1) x seconds
    dram_active_s       DOUBLE NOT NULL,       -- GPU-seconds with a memory activity
    dram_active_sum     DOUBLE,                -- memory activity (0-1) x seconds
    power_s             DOUBLE NOT NULL,       -- GPU-seconds with a power draw
    energy_j            DOUBLE                 -- energy in that time, in joules: power x seconds
);

-- One row is an attempt and a metric of its nodes. A mean is value_s / observed_s; of a rate, value_s is the sum. Computed.
CREATE TABLE attempt_node_activity (
    cluster             VARCHAR NOT NULL,      -- cluster
    scheduler           VARCHAR NOT NULL,      -- attempt
    job_id              VARCHAR NOT NULL,      -- attempt
    submitted_at        TIMESTAMPTZ NOT NULL,  -- attempt
    metric              VARCHAR NOT NULL,      -- metric of node_samples
    device              VARCHAR NOT NULL,      -- port, interface, disk or mount; empty for the whole node
    n_nodes             BIGINT NOT NULL,       -- nodes of which there are samples
    observed_s          DOUBLE NOT NULL,       -- node-seconds that samples cover, of nodes that it did not share
    value_s             DOUBLE,                -- value x seconds of those: bytes or operations where the metric is a rate
    shared_s            DOUBLE NOT NULL,       -- node-seconds of nodes that it shared, or in hours with only a mean in which another attempt started or ended: its own share is unknown
    shared_value_s      DOUBLE                 -- value x seconds of those, for the whole node
);

-- One row is an incident: health events of one node within 15 minutes of each other. Computed.
CREATE TABLE health_incidents (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    started_at          TIMESTAMPTZ NOT NULL,  -- its first event
    ended_at            TIMESTAMPTZ NOT NULL,  -- its last event
    severity            VARCHAR NOT NULL,      -- the worst of its events: critical, warning or info
    n_events            BIGINT NOT NULL,       -- how many events
    kinds               VARCHAR NOT NULL,      -- their kinds, the worst first: xid 79, ecc dbe, ...
    gpus                VARCHAR NOT NULL,      -- GPUs that they name, with commas; empty: none
    action              VARCHAR,               -- the action recommended for the worst of them
    n_attempts          BIGINT NOT NULL        -- attempts that it affects (see attempt_health)
);

-- One row is an incident and an attempt that held the node when it happened, or up to 5 minutes before. Computed.
CREATE TABLE attempt_health (
    cluster             VARCHAR NOT NULL,      -- incident, attempt
    node                VARCHAR NOT NULL,      -- incident
    started_at          TIMESTAMPTZ NOT NULL,  -- incident
    scheduler           VARCHAR NOT NULL,      -- attempt
    job_id              VARCHAR NOT NULL,      -- attempt
    submitted_at        TIMESTAMPTZ NOT NULL,  -- attempt
    n_events            BIGINT NOT NULL,       -- its events while the attempt held the node, or up to 5 minutes after
    severity            VARCHAR NOT NULL,      -- the worst of those
    at_end              BOOLEAN NOT NULL       -- one of them lies between 10 minutes before the attempt's end and 5 after it: it may be the cause
);

-- One row is a verdict on a claim.
CREATE TABLE verdicts (
    cluster             VARCHAR NOT NULL,      -- cluster
    claim               VARCHAR NOT NULL,      -- id of the claim
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    quoted              VARCHAR NOT NULL,      -- the quoted text
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
    needed              VARCHAR,               -- evidence still needed to decide
    scope               VARCHAR,               -- which part of the cluster it is about: partition, user, nodes, ...; null: all of it
    excluded_s          DOUBLE,                -- seconds of the window that the claim leaves out
    adjudications       BIGINT                 -- persons' corrections that count in it
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
    withdrawn_at        TIMESTAMPTZ,           -- when it was withdrawn
    withdrawn_by        VARCHAR,               -- who withdrew it
    withdrawn_reason    VARCHAR                -- why
);
