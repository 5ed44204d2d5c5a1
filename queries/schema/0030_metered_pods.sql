-- Kubernetes by kube-state-metrics: pods where their objects are not at hand.

-- One row is a pod with GPUs as kube-state-metrics reported it. Where its object is loaded, too, that has what both report.
CREATE TABLE metered_pods (
    cluster             VARCHAR NOT NULL,      -- cluster
    uid                 VARCHAR NOT NULL,      -- its uid
    namespace           VARCHAR NOT NULL,      -- namespace
    name                VARCHAR NOT NULL,      -- name
    owner_kind          VARCHAR,               -- kind of what controls it, or of what controls its Job
    owner_name          VARCHAR,               -- its name
    job_name            VARCHAR,               -- the Job that controls it
    node                VARCHAR,               -- Kubernetes' name of its node
    priority_class      VARCHAR,               -- priority class
    scheduler_name      VARCHAR,               -- what places it: slurm-bridge's are jobs of Slurm
    n_gpus              DECIMAL(12,3),         -- GPUs of its containers' limits
    created_at          TIMESTAMPTZ,           -- when it was created
    scheduled_at        TIMESTAMPTZ,           -- when it was assigned to its node
    ended_at            TIMESTAMPTZ,           -- when its last container ended
    phase               VARCHAR,               -- Succeeded or Failed; null: neither was reported
    reason              VARCHAR,               -- Kubernetes' own word for how it ended
    exit_code           BIGINT,                -- exit status of a container
    first_seen_at       TIMESTAMPTZ NOT NULL,  -- first reading
    seen_at             TIMESTAMPTZ NOT NULL   -- latest reading
);

-- One row is up to when the pods of a namespace were read: a pod that was not read by then is gone.
CREATE TABLE metered_namespaces (
    cluster             VARCHAR NOT NULL,      -- cluster
    namespace           VARCHAR NOT NULL,      -- namespace
    seen_at             TIMESTAMPTZ NOT NULL   -- latest reading of one of its pods, less the time that a gap may take
);
