-- Kueue: work in queues as it was last seen, every transition that was observed, and the evictions that follow.

-- One row is a Workload of Kueue, which stands for a job in a queue, as it was last seen.
CREATE TABLE kueue_workloads (
    cluster             VARCHAR NOT NULL,      -- cluster
    uid                 VARCHAR NOT NULL,      -- its uid
    namespace           VARCHAR NOT NULL,      -- namespace
    name                VARCHAR NOT NULL,      -- name
    owner_kind          VARCHAR,               -- kind of the job: Job, TrainJob, PyTorchJob, Pod, ...; null: none is named
    owner_name          VARCHAR,               -- its name
    owner_uid           VARCHAR,               -- its uid
    created_at          TIMESTAMPTZ NOT NULL,  -- when it was created: the job waits from then on
    queue               VARCHAR,               -- LocalQueue that it was submitted to
    cluster_queue       VARCHAR,               -- ClusterQueue that admitted it; null: not admitted when last seen
    priority            BIGINT,                -- its priority
    priority_class      VARCHAR,               -- class that the priority comes from
    n_pods              BIGINT,                -- pods that it requests
    n_gpus              DECIMAL(12,3),         -- GPUs that they request; null: unknown
    evictions           BIGINT,                -- evictions that Kueue itself counts; null: its version counts none
    seen_at             TIMESTAMPTZ NOT NULL   -- latest observation
);

-- One row is a condition of a Workload of Kueue since a time, and until when that was observed.
CREATE TABLE kueue_conditions (
    cluster             VARCHAR NOT NULL,      -- cluster
    uid                 VARCHAR NOT NULL,      -- the Workload's uid
    condition           VARCHAR NOT NULL,      -- QuotaReserved, Admitted, PodsReady, Evicted, Preempted, Requeued or Finished
    holds               BOOLEAN NOT NULL,      -- whether it does
    since               TIMESTAMPTZ NOT NULL,  -- when it began to hold, or not to
    last_seen_at        TIMESTAMPTZ NOT NULL,  -- latest observation
    reason              VARCHAR,               -- Kueue's own word for it
    preemptor_uid       VARCHAR,               -- uid of the Workload that it made room for; null: none, or not recorded
    preemptor_job_uid   VARCHAR                -- uid of that Workload's job
);

-- One row is an eviction by Kueue. Follows from the objects, anew when one is loaded.
CREATE TABLE evictions (
    cluster             VARCHAR NOT NULL,      -- cluster
    uid                 VARCHAR NOT NULL,      -- uid of the Workload that was evicted
    evicted_at          TIMESTAMPTZ NOT NULL,  -- when Kueue ordered it
    reason              VARCHAR,               -- Preempted, PodsReadyTimeout, AdmissionCheck, ClusterQueueStopped, Deactivated, ...
    preemption          VARCHAR,               -- why it had to make room: InClusterQueue, InCohortReclamation, ...; null: it was not preempted
    kind                VARCHAR,               -- kind of the job
    name                VARCHAR NOT NULL,      -- namespace and name of the job
    queue               VARCHAR,               -- its LocalQueue
    cluster_queue       VARCHAR,               -- its ClusterQueue, where one was observed
    scheduler           VARCHAR,               -- attempt key of the execution that it ended; null: no pod of it was observed
    job_id              VARCHAR,               -- attempt key
    submitted_at        TIMESTAMPTZ,           -- attempt key
    preemptor           VARCHAR,               -- namespace and name of the job that it made room for; null: none, or unknown
    preemptor_uid       VARCHAR,               -- uid of that job's Workload
    n_gpus              DECIMAL(12,3),         -- GPUs that it held
    gone_at             TIMESTAMPTZ,           -- when its last pod had ended; null: not yet, or not observed
    gone_s              DOUBLE,                -- seconds from the eviction until then
    held_gpu_s          DOUBLE,                -- GPU-seconds that its pods held in between
    admitted_at         TIMESTAMPTZ            -- when Kueue admitted it again; null: not yet, or not observed
);
