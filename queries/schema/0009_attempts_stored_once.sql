-- Attempts as they are stored: without what can be told from the rest. A node held by many attempts is told once, in the
-- node list that names it; the views `attempts` and `attempt_nodes` put everything together again.

CREATE SCHEMA stored;

-- One row is one execution of a scheduler job. Each requeue is a row of its own.
CREATE TABLE stored.attempts (
    cluster             VARCHAR NOT NULL,      -- cluster
    scheduler           VARCHAR NOT NULL,      -- slurm, kubeflow, argo, determined, kubernetes or vm
    job_id              VARCHAR NOT NULL,      -- the scheduler's raw id (Slurm: JobIDRaw)
    submitted_at        TIMESTAMPTZ NOT NULL,  -- this row's Submit: for a requeue the time of the requeue. A second row of one id within one second is one microsecond later
    display_id          VARCHAR,               -- the id as people see it where it is another one: 9_3 (array task), 11+1 (het component)
    array_job_id        VARCHAR,               -- id of the array
    array_task_id       BIGINT,                -- index within the array
    het_job_id          VARCHAR,               -- id of the het job's leader
    het_offset          BIGINT,                -- component number within the het job
    db_index            BIGINT,                -- slurmdbd's own key of the row
    eligible_at         TIMESTAMPTZ,           -- when it was allowed to start
    started_at          TIMESTAMPTZ,           -- when it got its nodes; null if it never did. After a resize: the time of the resize
    ended_at            TIMESTAMPTZ,           -- when it lost them; null while it runs or waits
    end_guessed         BOOLEAN,               -- true where accounting told no end: Start + Elapsed was taken until it does; else null
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
    node_list           VARCHAR,               -- nodes held, in the scheduler's brackets; null if it never got one
    sluid               VARCHAR,               -- Slurm's lasting id of the job (26.05 and later)
    restarts            BIGINT,                -- how often Slurm had restarted the job, where accounting tells it
    flags               VARCHAR,               -- Slurm's flags: SchedBackfill, StartReceived, ...
    failed_node         VARCHAR,               -- node whose failure ended it, where accounting names it
    constraints         VARCHAR,               -- features asked for
    wckey               VARCHAR,               -- workload characterisation key
    admin_comment       VARCHAR,               -- comment by administrators and their tools
    submit_line         VARCHAR,               -- command line it was submitted with; of NAME=value the values are left out, but of ...RUN_ID, ...RUN_NAME, WANDB_RUN_GROUP and WANDB_NAME
    env_run             VARCHAR                -- value of the environment variable that names the run (config: rules), where it was read
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

INSERT INTO stored.attempts BY NAME
SELECT * EXCLUDE (first_submitted_at) REPLACE (NULLIF(display_id, job_id) AS display_id) FROM attempts;

INSERT INTO resubmissions
SELECT cluster, scheduler, job_id, submitted_at, first_submitted_at
FROM attempts
WHERE first_submitted_at <> submitted_at;

INSERT INTO node_lists
WITH held AS (
    SELECT a.node_list, n.node, MAX(n.n_gpus) AS most
    FROM attempts AS a JOIN attempt_nodes AS n USING (cluster, scheduler, job_id, submitted_at)
    WHERE a.node_list IS NOT NULL
    GROUP BY ALL
)
SELECT node_list, list(node ORDER BY most DESC, LENGTH(node), node) FROM held GROUP BY node_list;

DROP TABLE attempt_nodes;
DROP TABLE attempts;

ALTER TABLE loads ADD COLUMN rows_new BIGINT; -- how many of the rows taken in made the source's table grow; null where nobody counted
