-- Slurm in full: what else accounting tells of an attempt, and what is around the jobs: network, reservations, people,
-- rules and the scheduler's own state.

ALTER TABLE attempts ADD COLUMN sluid VARCHAR; -- Slurm's lasting id of the job (26.05 and later)
ALTER TABLE attempts ADD COLUMN restarts BIGINT; -- how often Slurm had restarted the job, where accounting tells it
ALTER TABLE attempts ADD COLUMN flags VARCHAR; -- Slurm's flags: SchedBackfill, StartReceived, ...
ALTER TABLE attempts ADD COLUMN failed_node VARCHAR; -- node whose failure ended it, where accounting names it
ALTER TABLE attempts ADD COLUMN constraints VARCHAR; -- features asked for
ALTER TABLE attempts ADD COLUMN wckey VARCHAR; -- workload characterisation key
ALTER TABLE attempts ADD COLUMN admin_comment VARCHAR; -- comment by administrators and their tools
ALTER TABLE attempts ADD COLUMN submit_line VARCHAR; -- command line it was submitted with; of NAME=value the values are left out, but of ...RUN_ID, ...RUN_NAME, WANDB_RUN_GROUP and WANDB_NAME
ALTER TABLE attempts ADD COLUMN env_run VARCHAR; -- value of the environment variable that names the run (config: rules), where it was read

-- One row is a node's place in the network, unchanged from valid_from to last_seen_at.
CREATE TABLE node_topology (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    valid_from          TIMESTAMPTZ NOT NULL,  -- first observation of this place
    last_seen_at        TIMESTAMPTZ NOT NULL,  -- last observation of the same place
    plugin              VARCHAR NOT NULL,      -- tree or block
    path                VARCHAR[] NOT NULL     -- from the outermost switch (or aggregated block) to the innermost
);

-- One row is a reservation: nodes set aside for a time, for maintenance or for somebody.
CREATE TABLE reservations (
    cluster             VARCHAR NOT NULL,      -- cluster
    name                VARCHAR NOT NULL,      -- name of the reservation
    started_at          TIMESTAMPTZ NOT NULL,  -- beginning
    ended_at            TIMESTAMPTZ,           -- end
    node_list           VARCHAR,               -- its nodes, in the scheduler's brackets
    n_nodes             BIGINT,                -- how many
    "partition"         VARCHAR,               -- partition
    flags               VARCHAR[],             -- MAINT, IGNORE_JOBS, ...
    users               VARCHAR[],             -- users that may use it
    accounts            VARCHAR[],             -- accounts that may use it
    maintenance         BOOLEAN NOT NULL,      -- whether it is for maintenance (flag MAINT)
    last_seen_at        TIMESTAMPTZ            -- when it was last read
);

-- One row is an association: a user (or nobody in particular) in an account, maybe of one partition, with its limits.
CREATE TABLE associations (
    cluster             VARCHAR NOT NULL,      -- cluster
    account             VARCHAR NOT NULL,      -- account (project)
    "user"              VARCHAR NOT NULL,      -- login name; empty for the account itself
    "partition"         VARCHAR NOT NULL,      -- partition it is limited to; empty for all
    association         BIGINT,                -- Slurm's number for it
    parent              VARCHAR,               -- parent account
    fairshare           VARCHAR,               -- shares, or `parent`
    default_qos         VARCHAR,               -- quality of service where none is asked for
    qos                 VARCHAR[],             -- qualities of service allowed
    limits              VARCHAR[],             -- limits by Slurm's names: MaxTRES=gres/gpu=8, GrpJobs=100
    first_seen_at       TIMESTAMPTZ NOT NULL,  -- first observation
    last_seen_at        TIMESTAMPTZ NOT NULL   -- last observation
);

-- One row is a quality of service as it was last read.
CREATE TABLE qos (
    cluster             VARCHAR NOT NULL,      -- cluster
    name                VARCHAR NOT NULL,      -- name
    priority            BIGINT,                -- priority
    preempts            VARCHAR[],             -- qualities of service that it may preempt
    preempt_mode        VARCHAR,               -- what preemption does to their jobs
    flags               VARCHAR[],             -- flags
    usage_factor        DOUBLE,                -- usage counts so many times
    grace_s             DOUBLE,                -- seconds between the warning and the end of a preempted job
    limits              VARCHAR[],             -- limits by Slurm's names: MaxTRESPerUser=gres/gpu=2
    first_seen_at       TIMESTAMPTZ NOT NULL,  -- first observation
    last_seen_at        TIMESTAMPTZ NOT NULL   -- last observation
);

-- One row is a change that an administrator made to Slurm's accounts.
CREATE TABLE transactions (
    cluster             VARCHAR NOT NULL,      -- cluster
    ts                  TIMESTAMPTZ NOT NULL,  -- when
    actor               VARCHAR NOT NULL,      -- who
    action              VARCHAR NOT NULL,      -- what: Add Users, Modify Associations, ...
    subject             VARCHAR NOT NULL,      -- what it was done to, in Slurm's words
    detail              VARCHAR NOT NULL       -- the new values, in Slurm's words
);

-- One row is a number of the scheduler about itself (sdiag) at one time.
CREATE TABLE scheduler_stats (
    cluster             VARCHAR NOT NULL,      -- cluster
    ts                  TIMESTAMPTZ NOT NULL,  -- when it was asked
    section             VARCHAR NOT NULL,      -- main, backfill, rpc, ... (sdiag's headings)
    name                VARCHAR NOT NULL,      -- sdiag's own words
    value               DOUBLE NOT NULL        -- the number in base units
);

-- One row is a job that accounting takes for running (or waiting) while the controller does not know it any more.
CREATE TABLE runaway_jobs (
    cluster             VARCHAR NOT NULL,      -- cluster
    job_id              VARCHAR NOT NULL,      -- raw id
    submitted_at        TIMESTAMPTZ NOT NULL,  -- Submit of the row that was never closed
    started_at          TIMESTAMPTZ,           -- its Start
    state               VARCHAR NOT NULL,      -- state that accounting still shows
    first_seen_at       TIMESTAMPTZ NOT NULL,  -- when it was first found
    last_seen_at        TIMESTAMPTZ NOT NULL   -- when it was last found
);

-- One row is an attempt without an end that was asked for by its job id, and whether accounting still knew it.
CREATE TABLE rechecks (
    cluster             VARCHAR NOT NULL,      -- cluster
    scheduler           VARCHAR NOT NULL,      -- as in attempts
    job_id              VARCHAR NOT NULL,      -- as in attempts
    submitted_at        TIMESTAMPTZ NOT NULL,  -- as in attempts
    checked_at          TIMESTAMPTZ NOT NULL,  -- when it was last asked for
    known               BOOLEAN NOT NULL       -- whether accounting then had a record of it
);
