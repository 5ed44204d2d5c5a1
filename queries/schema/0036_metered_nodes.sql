-- Kubernetes by kube-state-metrics: nodes where their objects are not at hand.

-- One row is a time for which kube-state-metrics reported the same of a node, without a gap.
CREATE TABLE metered_node_states (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- Kubernetes' name of the node
    condition           VARCHAR NOT NULL,      -- Ready; Unschedulable: it is cordoned
    holds               BOOLEAN NOT NULL,      -- whether it did
    started_at          TIMESTAMPTZ NOT NULL,  -- first reading
    last_seen_at        TIMESTAMPTZ NOT NULL   -- last reading
);

-- One row is a node with GPUs as kube-state-metrics reported it.
CREATE TABLE metered_nodes (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- Kubernetes' name of the node
    created_at          TIMESTAMPTZ NOT NULL,  -- when it joined; where that is not exported, its first reading
    n_gpus              DECIMAL(12,3) NOT NULL, -- GPUs of its capacity
    last_seen_at        TIMESTAMPTZ NOT NULL   -- latest reading
);
