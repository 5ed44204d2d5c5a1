-- What ran: scheduler jobs attempt by attempt, and the training runs they belong to. The schema `stored` has attempts without what
-- follows from other rows: a node list that many attempts name is written out once. The views `attempts` and `attempt_nodes` join them.

CREATE SCHEMA stored;

-- One row is one execution of a scheduler job. Each requeue is a row of its own.
CREATE TABLE stored.attempts (
    cluster             VARCHAR NOT NULL,      -- cluster
    scheduler           VARCHAR NOT NULL,      -- slurm, kubeflow, argo, determined, kubernetes or vm
    job_id              VARCHAR NOT NULL,      -- the scheduler's raw id (Slurm: JobIDRaw)
    submitted_at        TIMESTAMPTZ NOT NULL,  -- this row's Submit: for a requeue the time of the requeue. A second row of one id within one second is one microsecond later
    display_id          VARCHAR,               -- the id as users see it, where it differs: 9_3 (array task), 11+1 (het component)
    array_job_id        VARCHAR,               -- id of the array
    array_task_id       BIGINT,                -- index within the array
    het_job_id          VARCHAR,               -- id of the het job's leader
    het_offset          BIGINT,                -- component number within the het job
    db_index            BIGINT,                -- slurmdbd's own key of the row
    eligible_at         TIMESTAMPTZ,           -- when it was allowed to start
    started_at          TIMESTAMPTZ,           -- when it got its nodes; null if it never did. After a resize: the time of the resize
    ended_at            TIMESTAMPTZ,           -- when it lost them; null while it runs or waits
    end_guessed         BOOLEAN,               -- true where accounting has no end yet: Start + Elapsed is used until it has; else null
    state               VARCHAR NOT NULL,      -- Slurm's state without its tail: COMPLETED, NODE_FAIL, ...
    cancelled_by        VARCHAR,               -- uid that cancelled it, as first observed
    exit_code           BIGINT,                -- exit status as accounting shows it
    exit_signal         BIGINT,                -- signal that ended it, 0 for none
    derived_exit_code   BIGINT,                -- highest exit status of its steps
    derived_exit_signal BIGINT,                -- the signal that goes with it
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
    req_nodes           BIGINT,                -- nodes requested
    n_nodes             BIGINT NOT NULL,       -- nodes held; 0 if it never got one; null where the source does not record nodes
    req_cpus            BIGINT,                -- CPUs requested
    n_cpus              BIGINT,                -- CPUs held
    req_gpus            DECIMAL(12,3),         -- GPUs requested
    n_gpus              DECIMAL(12,3),         -- GPUs held (gpus of the allocated TRES); 0 if it never got a node
    gpu_model           VARCHAR,               -- GPU type where the TRES names one
    req_mem_bytes       BIGINT,                -- memory requested
    alloc_mem_bytes     BIGINT,                -- memory held
    req_tres            VARCHAR,               -- requested TRES as text
    alloc_tres          VARCHAR,               -- allocated TRES as text
    node_list           VARCHAR,               -- nodes held, in the scheduler's brackets; null if it never got one
    sluid               VARCHAR,               -- Slurm's permanent id of the job (26.05 and later)
    restarts            BIGINT,                -- how often Slurm had restarted the job, where accounting records it
    flags               VARCHAR,               -- Slurm's flags: SchedBackfill, StartReceived, ...
    failed_node         VARCHAR,               -- node whose failure ended it, where accounting names it
    constraints         VARCHAR,               -- features requested
    wckey               VARCHAR,               -- workload characterisation key
    admin_comment       VARCHAR,               -- comment by administrators and their tools
    submit_line         VARCHAR,               -- command line it was submitted with; of NAME=value the values are left out, but of ...RUN_ID, ...RUN_NAME, WANDB_RUN_GROUP and WANDB_NAME
    env_run             VARCHAR,               -- value of the environment variable that names the run (config: rules), where it was read
    gpus_steps          DECIMAL(12,3),         -- most GPUs that one of its steps held
    gpus_asked          DECIMAL(12,3),         -- GPUs requested outside of the TRES: --gpus and --gres of the submit line, or ReqGRES
    exclusive           BOOLEAN                -- true where no other job could use its nodes (--exclusive of the submit line); else null
);

-- One row is an attempt of a job that was submitted before.
CREATE TABLE resubmissions (
    cluster             VARCHAR NOT NULL,      -- cluster
    scheduler           VARCHAR NOT NULL,      -- attempt key
    job_id              VARCHAR NOT NULL,      -- attempt key
    submitted_at        TIMESTAMPTZ NOT NULL,  -- attempt key
    first_submitted_at  TIMESTAMPTZ NOT NULL   -- Submit of the earliest row of the same job and user
);

-- One row is a node list in the scheduler's brackets, written out.
CREATE TABLE node_lists (
    node_list           VARCHAR NOT NULL,      -- as in attempts
    nodes               VARCHAR[] NOT NULL     -- its nodes, in the order of the list
);

-- One row is a job as slurmctld showed it while the job was in its memory, with its GPUs: for attempts whose GPUs accounting does not record.
CREATE TABLE job_gpus (
    cluster             VARCHAR NOT NULL,      -- cluster
    job_id              VARCHAR NOT NULL,      -- raw id (JobId)
    submitted_at        TIMESTAMPTZ NOT NULL,  -- SubmitTime, to the second
    gpus_held           DECIMAL(12,3),         -- GPUs that it held on its nodes: gres_detail, or GRES of `scontrol show job -d`
    gpus_asked          DECIMAL(12,3),         -- GPUs that it requested: tres_per_job, tres_per_node, ...
    exclusive           BOOLEAN                -- true where no other job could use its nodes (OverSubscribe, shared); else null
);

-- One row is a job that accounting shows as running (or waiting) while the controller has no such job any more.
CREATE TABLE runaway_jobs (
    cluster             VARCHAR NOT NULL,      -- cluster
    job_id              VARCHAR NOT NULL,      -- raw id
    submitted_at        TIMESTAMPTZ NOT NULL,  -- Submit of the row that was never closed
    started_at          TIMESTAMPTZ,           -- its Start
    state               VARCHAR NOT NULL,      -- state that accounting still shows
    first_seen_at       TIMESTAMPTZ NOT NULL,  -- first observation
    last_seen_at        TIMESTAMPTZ NOT NULL   -- last observation
);

-- One row is an attempt without an end that was requested by its job id, and whether accounting still had it.
CREATE TABLE rechecks (
    cluster             VARCHAR NOT NULL,      -- cluster
    scheduler           VARCHAR NOT NULL,      -- as in attempts
    job_id              VARCHAR NOT NULL,      -- as in attempts
    submitted_at        TIMESTAMPTZ NOT NULL,  -- as in attempts
    checked_at          TIMESTAMPTZ NOT NULL,  -- when it was last requested
    known               BOOLEAN NOT NULL       -- whether accounting then had a record of it
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
    n_gpus              DECIMAL(12,3),         -- most GPUs held at once by one attempt (het components added up)
    first_submitted_at  TIMESTAMPTZ NOT NULL,  -- Submit of its first attempt
    eligible_at         TIMESTAMPTZ,           -- when its first attempt was allowed to start
    started_at          TIMESTAMPTZ,           -- when its first attempt started
    ended_at            TIMESTAMPTZ,           -- when its last attempt ended; null while one runs or waits
    state               VARCHAR NOT NULL       -- state of its last attempt
);

-- One row is the run that an attempt belongs to, and the rule that joined it. Computed.
CREATE TABLE run_attempts (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    scheduler           VARCHAR NOT NULL,      -- attempt key
    job_id              VARCHAR NOT NULL,      -- attempt key
    submitted_at        TIMESTAMPTZ NOT NULL,  -- attempt key
    attempt_no          BIGINT NOT NULL,       -- 1 for the first execution; het components share a number
    joined_by           VARCHAR NOT NULL       -- rule that joined this attempt to the one before
);
