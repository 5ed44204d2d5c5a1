-- What ran: scheduler jobs attempt by attempt, and the training runs they belong to.

-- One row is one execution of a scheduler job. Each requeue is a row of its own.
CREATE TABLE attempts (
    cluster             VARCHAR NOT NULL,      -- cluster
    scheduler           VARCHAR NOT NULL,      -- slurm, kubeflow, argo, determined, kubernetes or vm
    job_id              VARCHAR NOT NULL,      -- the scheduler's raw id (Slurm: JobIDRaw)
    submitted_at        TIMESTAMPTZ NOT NULL,  -- this row's Submit: for a requeue the time of the requeue. A second row of one id within one second is one microsecond later
    display_id          VARCHAR,               -- the id as people see it: 9_3 (array task), 11+1 (het component)
    array_job_id        VARCHAR,               -- id of the array
    array_task_id       BIGINT,                -- index within the array
    het_job_id          VARCHAR,               -- id of the het job's leader
    het_offset          BIGINT,                -- component number within the het job
    db_index            BIGINT,                -- slurmdbd's own key of the row
    first_submitted_at  TIMESTAMPTZ,           -- Submit of the earliest row of the same job
    eligible_at         TIMESTAMPTZ,           -- when it was allowed to start
    started_at          TIMESTAMPTZ,           -- when it got its nodes; null if it never did. After a resize: the time of the resize
    ended_at            TIMESTAMPTZ,           -- when it lost them; null while it runs or waits
    state               VARCHAR NOT NULL,      -- Slurm's state without its tail: COMPLETED, NODE_FAIL, ...
    cancelled_by        VARCHAR,               -- uid that cancelled it, from the first sight
    exit_code           BIGINT,                -- exit status as accounting shows it
    exit_signal         BIGINT,                -- signal that ended it, 0 for none
    derived_exit_code   BIGINT,                -- highest exit status of its steps
    derived_exit_signal BIGINT,                -- the signal beside it
    reason              VARCHAR,               -- the last reason for waiting
    "user"              VARCHAR,               -- login name
    uid                 BIGINT,                -- its number
    account             VARCHAR,               -- account (project)
    "group"             VARCHAR,               -- unix group
    "partition"         VARCHAR,               -- partition; a pending job may name several, with commas
    qos                 VARCHAR,               -- quality of service
    name                VARCHAR,               -- job name
    work_dir            VARCHAR,               -- working directory
    comment             VARCHAR,               -- job comment
    reservation         VARCHAR,               -- reservation it ran in
    priority            BIGINT,                -- scheduler's priority
    time_limit_s        DOUBLE,                -- time limit in seconds; null for none
    elapsed_s           DOUBLE,                -- the scheduler's run time in seconds, without suspension
    suspended_s         DOUBLE,                -- seconds suspended
    req_nodes           BIGINT,                -- nodes asked for
    n_nodes             BIGINT NOT NULL,       -- nodes held; 0 if it never got one
    req_cpus            BIGINT,                -- CPUs asked for
    n_cpus              BIGINT,                -- CPUs held
    req_gpus            DECIMAL(12,3),         -- GPUs asked for
    n_gpus              DECIMAL(12,3) NOT NULL, -- GPUs held (gpus of the allocated TRES); 0 if it never got a node
    gpu_model           VARCHAR,               -- GPU type where the TRES names one
    req_mem_bytes       BIGINT,                -- memory asked for
    alloc_mem_bytes     BIGINT,                -- memory held
    req_tres            VARCHAR,               -- requested TRES as text
    alloc_tres          VARCHAR,               -- allocated TRES as text
    node_list           VARCHAR                -- nodes held, in the scheduler's brackets; null if it never got one
);

-- One row is an attempt on a node with the GPUs it held there.
CREATE TABLE attempt_nodes (
    cluster             VARCHAR NOT NULL,      -- cluster
    scheduler           VARCHAR NOT NULL,      -- as in attempts
    job_id              VARCHAR NOT NULL,      -- as in attempts
    submitted_at        TIMESTAMPTZ NOT NULL,  -- as in attempts
    node                VARCHAR NOT NULL,      -- node
    n_gpus              DECIMAL(12,3) NOT NULL, -- GPUs held on this node
    evidence            VARCHAR NOT NULL       -- accounting, or assumed where an uneven split is not told
);

-- One row is a training run: the attempts of one logical task. Computed.
CREATE TABLE runs (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- job id and first submission: 29-20261121T073100Z
    joined_by           VARCHAR NOT NULL,      -- how its attempts were joined: single, requeue_chain, resize, het, explicit, adjudicated
    "user"              VARCHAR,               -- login name
    account             VARCHAR,               -- account
    "partition"         VARCHAR,               -- partition of the last attempt
    name                VARCHAR,               -- job name of the last attempt
    n_attempts          BIGINT NOT NULL,       -- attempts in it
    n_gpus              DECIMAL(12,3) NOT NULL, -- most GPUs held at once by one attempt (het components added up)
    first_submitted_at  TIMESTAMPTZ NOT NULL,  -- Submit of its first attempt
    eligible_at         TIMESTAMPTZ,           -- when its first attempt was allowed to start
    started_at          TIMESTAMPTZ,           -- when its first attempt started
    ended_at            TIMESTAMPTZ,           -- when its last attempt ended; null while one runs or waits
    state               VARCHAR NOT NULL       -- state of its last attempt
);

-- One row says which run an attempt belongs to, and by which rule. Computed.
CREATE TABLE run_attempts (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    scheduler           VARCHAR NOT NULL,      -- attempt key
    job_id              VARCHAR NOT NULL,      -- attempt key
    submitted_at        TIMESTAMPTZ NOT NULL,  -- attempt key
    attempt_no          BIGINT NOT NULL,       -- 1 for the first execution; het components share a number
    joined_by           VARCHAR NOT NULL       -- rule that joined this attempt to the one before
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
