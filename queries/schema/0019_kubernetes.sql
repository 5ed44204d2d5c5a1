-- Kubernetes: API objects as they were last seen. Attempts follow from them, for each workload anew when one of its objects is loaded.

-- One row is a pod as it was last seen.
CREATE TABLE pods (
    cluster             VARCHAR NOT NULL,      -- cluster
    uid                 VARCHAR NOT NULL,      -- its uid
    namespace           VARCHAR NOT NULL,      -- namespace
    name                VARCHAR NOT NULL,      -- name
    owner_kind          VARCHAR,               -- kind of what controls it: Job, PyTorchJob, ReplicaSet, ...; null: nothing does
    owner_name          VARCHAR,               -- its name
    owner_uid           VARCHAR,               -- its uid
    "role"              VARCHAR NOT NULL,      -- work; slurm_node: slurmd runs in it; slurm_job: Slurm's accounting has its GPUs under a job
    slot                VARCHAR,               -- its place among the pods of its workload; null: the objects record none
    restart_attempt     BIGINT,                -- which restart of its JobSet it belongs to
    created_at          TIMESTAMPTZ NOT NULL,  -- when it was created
    scheduled_at        TIMESTAMPTZ,           -- when it was assigned to its node, from when on it holds GPUs there
    ended_at            TIMESTAMPTZ,           -- when its last container ended; null while one runs, or where that was not observed
    deleted_at          TIMESTAMPTZ,           -- when it was removed from the API, where a watch reported that
    seen_at             TIMESTAMPTZ NOT NULL,  -- latest observation
    node                VARCHAR,               -- Kubernetes' name of its node
    n_gpus              DECIMAL(12,3),         -- GPUs of its containers; null: unknown (claims of dynamic resource allocation, shared GPUs)
    state               VARCHAR NOT NULL,      -- in Slurm's words: PENDING, RUNNING, COMPLETED, FAILED, NODE_FAIL, PREEMPTED, OUT_OF_MEMORY, TIMEOUT
    reason              VARCHAR,               -- Kubernetes' own word for how it ended: Error, OOMKilled, DeletionByTaintManager, ...
    exit_code           BIGINT,                -- exit status of the container that ended first with one
    restarts            BIGINT NOT NULL,       -- how often its containers were restarted in place
    queue               VARCHAR,               -- Kueue's queue
    priority_class      VARCHAR,               -- priority class
    "user"              VARCHAR,               -- whose it is, where a label records that
    slurm_job_id        VARCHAR                -- the Slurm job that stands for it
);

-- One row is an object that controls pods, or other such objects, as it was last seen.
CREATE TABLE workloads (
    cluster             VARCHAR NOT NULL,      -- cluster
    uid                 VARCHAR NOT NULL,      -- its uid
    kind                VARCHAR NOT NULL,      -- TrainJob, JobSet, Job, PyTorchJob, Workflow, ...
    namespace           VARCHAR NOT NULL,      -- namespace
    name                VARCHAR NOT NULL,      -- name
    owner_kind          VARCHAR,               -- kind of what controls it; null: nothing does
    owner_name          VARCHAR,               -- its name
    owner_uid           VARCHAR,               -- its uid
    created_at          TIMESTAMPTZ NOT NULL,  -- when it was created
    ended_at            TIMESTAMPTZ,           -- when it completed or failed; null until then
    state               VARCHAR NOT NULL,      -- PENDING (also suspended), RUNNING, COMPLETED, FAILED or TIMEOUT
    reason              VARCHAR,               -- Kubernetes' own word for it
    queue               VARCHAR,               -- Kueue's queue
    "user"              VARCHAR,               -- whose it is, where a label records that
    seen_at             TIMESTAMPTZ NOT NULL   -- latest observation
);

-- One row is a complete list of the pods of a namespace, or of the nodes: what it lacks no longer existed.
CREATE TABLE object_lists (
    cluster             VARCHAR NOT NULL,      -- cluster
    kind                VARCHAR NOT NULL,      -- Pod or Node
    namespace           VARCHAR NOT NULL,      -- namespace; empty for nodes
    seen_at             TIMESTAMPTZ NOT NULL   -- when: the latest time in the input
);

-- One row is what a node reported of itself since a time, and until when that was observed.
CREATE TABLE node_conditions (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- Kubernetes' name of the node
    condition           VARCHAR NOT NULL,      -- Ready; Unschedulable: it is cordoned; another condition that says that something is wrong or under way: KernelDeadlock, MaintenancePlanned, ...
    holds               BOOLEAN NOT NULL,      -- whether it does; of cordons and other conditions only what was wrong or under way
    since               TIMESTAMPTZ NOT NULL,  -- when it began to hold, or not to
    last_seen_at        TIMESTAMPTZ NOT NULL,  -- latest observation
    reason              VARCHAR                -- Kubernetes' own words for it; of a cordon the conditions, marks and taints that tell why
);

-- One row is an attempt on a node, where the source records when it held which GPUs there. The view `attempt_nodes` has these rows, too.
CREATE TABLE placements (
    cluster             VARCHAR NOT NULL,      -- cluster
    scheduler           VARCHAR NOT NULL,      -- attempt key
    job_id              VARCHAR NOT NULL,      -- attempt key
    submitted_at        TIMESTAMPTZ NOT NULL,  -- attempt key
    node                VARCHAR NOT NULL,      -- node
    started_at          TIMESTAMPTZ NOT NULL,  -- when it got GPUs there
    ended_at            TIMESTAMPTZ,           -- when it lost them; null while it holds them
    n_gpus              DECIMAL(12,3)          -- how many; null: unknown
);
