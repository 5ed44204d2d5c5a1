-- The machine and its rules: nodes, their names, states and places in the network; users, accounts, limits; the scheduler's own state.

-- One row is a setting of a cluster's scheduler that a number depends on.
CREATE TABLE cluster_settings (
    cluster             VARCHAR NOT NULL,      -- cluster
    name                VARCHAR NOT NULL,      -- Slurm's own name for it: SlurmdTimeout, AccountingStorageTRES, ...
    value               VARCHAR NOT NULL       -- Slurm's own text
);

-- One row is a node's inventory as observed, unchanged from valid_from to last_seen_at.
CREATE TABLE nodes (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- the scheduler's name for the node
    valid_from          TIMESTAMPTZ NOT NULL,  -- first observation of these values
    last_seen_at        TIMESTAMPTZ NOT NULL,  -- last observation of the same values
    n_gpus              DECIMAL(12,3) NOT NULL, -- GPUs configured
    gpu_model           VARCHAR,               -- GPU type as the scheduler calls it
    n_cpus              BIGINT,                -- CPUs configured
    memory_bytes        BIGINT,                -- memory configured
    partitions          VARCHAR[],             -- partitions the node is in
    topology            VARCHAR[],             -- path from the outermost switch or block to the innermost
    labels              VARCHAR[],             -- features and labels
    evidence            VARCHAR NOT NULL       -- accounting (an inventory was read) or assumed
);

-- One row is another name for a node in one source: on Kubernetes the Slurm node is a pod while DCGM names the host.
CREATE TABLE node_aliases (
    cluster             VARCHAR NOT NULL,      -- cluster
    source              VARCHAR NOT NULL,      -- source that uses the name
    name                VARCHAR NOT NULL,      -- the name there
    valid_from          TIMESTAMPTZ NOT NULL,  -- first time it meant this node
    node                VARCHAR NOT NULL       -- the scheduler's name
);

-- One row is a node in one state that takes it out of service, for an interval.
CREATE TABLE node_states (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    started_at          TIMESTAMPTZ NOT NULL,  -- first moment in the state (when the scheduler noticed)
    source              VARCHAR NOT NULL,      -- slurm.events or slurm.nodes
    ended_at            TIMESTAMPTZ,           -- first moment out of it; null while it lasts
    state               VARCHAR NOT NULL,      -- down, drained, maintenance or unknown
    state_raw           VARCHAR NOT NULL,      -- the scheduler's own text
    reason              VARCHAR,               -- reason given
    actor               VARCHAR,               -- who set it
    planned             BOOLEAN NOT NULL       -- maintenance, by state or by the reason's text (config: planned_reasons)
);

-- One row is a node's place in the network, unchanged from valid_from to last_seen_at.
CREATE TABLE node_topology (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    valid_from          TIMESTAMPTZ NOT NULL,  -- first observation of this place
    last_seen_at        TIMESTAMPTZ NOT NULL,  -- last observation of the same place
    plugin              VARCHAR NOT NULL,      -- tree or block
    path                VARCHAR[] NOT NULL     -- from the outermost switch (or aggregated block) to the innermost
);

-- One row is a reservation: nodes set aside for a time, for maintenance or for certain users.
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

-- One row is a user in an account of a cluster.
CREATE TABLE users (
    cluster             VARCHAR NOT NULL,      -- cluster
    "user"              VARCHAR NOT NULL,      -- login name
    account             VARCHAR NOT NULL,      -- account (project)
    association         VARCHAR,               -- association id
    admin_level         VARCHAR,               -- None, Operator or Administrator
    provisioned_at      TIMESTAMPTZ,           -- when the association was made
    first_job_at        TIMESTAMPTZ            -- first submission seen
);

-- One row is an association: a user in an account (or the account itself), maybe of one partition, with its limits.
CREATE TABLE associations (
    cluster             VARCHAR NOT NULL,      -- cluster
    account             VARCHAR NOT NULL,      -- account (project)
    "user"              VARCHAR NOT NULL,      -- login name; empty for the account itself
    "partition"         VARCHAR NOT NULL,      -- partition it is limited to; empty for all
    association         BIGINT,                -- Slurm's number for it
    parent              VARCHAR,               -- parent account
    fairshare           VARCHAR,               -- shares, or `parent`
    default_qos         VARCHAR,               -- quality of service where none is requested
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
    ts                  TIMESTAMPTZ NOT NULL,  -- when it was read
    section             VARCHAR NOT NULL,      -- main, backfill, rpc, ... (sdiag's headings)
    name                VARCHAR NOT NULL,      -- sdiag's own name
    value               DOUBLE NOT NULL        -- the number in base units
);
