-- Kubernetes: claims of dynamic resource allocation, what nodes offer to them, and when pods were last alive.

ALTER TABLE pods ADD COLUMN alive_at TIMESTAMPTZ; -- latest observation in which it held its node and had not ended: the end of one that does not say when it ended

-- One row is a ResourceClaim as it was last seen.
CREATE TABLE resource_claims (
    cluster             VARCHAR NOT NULL,      -- cluster
    uid                 VARCHAR NOT NULL,      -- its uid
    namespace           VARCHAR NOT NULL,      -- namespace
    name                VARCHAR NOT NULL,      -- name
    n_gpus              DECIMAL(12,3),         -- GPUs that are allocated, else requested, without those of administrators; null: unknown
    seen_at             TIMESTAMPTZ NOT NULL   -- latest observation
);

-- One row is a claim that a pod names.
CREATE TABLE pod_claims (
    cluster             VARCHAR NOT NULL,      -- cluster
    uid                 VARCHAR NOT NULL,      -- uid of the pod
    entry               VARCHAR NOT NULL,      -- what the pod calls the claim
    claim               VARCHAR,               -- name of the claim; null: it was not made yet
    seen_at             TIMESTAMPTZ NOT NULL   -- latest observation
);

-- One row is a ResourceSlice with GPUs as it was last seen: devices of one driver on one node.
CREATE TABLE resource_slices (
    cluster             VARCHAR NOT NULL,      -- cluster
    uid                 VARCHAR NOT NULL,      -- its uid
    node                VARCHAR NOT NULL,      -- Kubernetes' name of its node
    pool                VARCHAR NOT NULL,      -- pool that it is part of
    generation          BIGINT NOT NULL,       -- of the pool: slices of earlier ones are void
    n_gpus              DECIMAL(12,3),         -- GPUs in it; null: unknown
    gpu_model           VARCHAR,               -- model
    seen_at             TIMESTAMPTZ NOT NULL   -- latest observation
);
