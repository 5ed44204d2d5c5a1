-- The machine: which nodes there are, under which names, in which states, and who uses them.

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
    state_raw           VARCHAR NOT NULL,      -- the scheduler's own words
    reason              VARCHAR,               -- reason given
    actor               VARCHAR,               -- who set it
    planned             BOOLEAN NOT NULL       -- maintenance, by state or by the reason's words (config: planned_reasons)
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
