-- Where Slurm and Kubernetes see a node differently. Computed.

ALTER TABLE pods ADD COLUMN deletion_requested_at TIMESTAMPTZ; -- when it was asked to end, from when on it is Terminating

-- One row is a time in which Slurm and Kubernetes disagree about a node. Its GPU-time is an overlay, never added to the ledger.
CREATE TABLE sync_intervals (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- Slurm's name of the node
    kubernetes_node     VARCHAR,               -- Kubernetes' name of its host; null: it has none
    started_at          TIMESTAMPTZ NOT NULL,  -- when they began to disagree
    ended_at            TIMESTAMPTZ,           -- when they agreed again, or the last moment that both were observed (ended_by: open, unknown)
    kind                VARCHAR NOT NULL,      -- cordoned, not_ready, terminating (Slurm has it in service); out_of_slurm; only_slurm, only_kubernetes
    slurm_state         VARCHAR NOT NULL,      -- Slurm's state at the beginning: idle, allocated, down, drained or absent
    kubernetes_state    VARCHAR NOT NULL,      -- Kubernetes' state: ready, not_ready, cordoned, terminating or absent
    slurm_reason        VARCHAR,               -- Slurm's reason
    kubernetes_reason   VARCHAR,               -- Kubernetes' reason
    began_by            VARCHAR NOT NULL,      -- which side changed then: slurm, kubernetes or unknown
    ended_by            VARCHAR NOT NULL,      -- which side changed at the end: slurm, kubernetes, open or unknown (not observed any longer)
    wrong               VARCHAR NOT NULL,      -- which side was wrong, where evidence tells: slurm, kubernetes or unknown
    evidence            VARCHAR,               -- what tells: followed, work_placed, work_completed, node_fail, pod_ended; null: nothing does
    settled_at          TIMESTAMPTZ,           -- when no attempt held GPUs of it any longer: drained, not draining
    begin_uncertain_s   DOUBLE NOT NULL,       -- it may have begun so much earlier: a side was not observed
    end_uncertain_s     DOUBLE NOT NULL,       -- it may have ended so much later
    gpu_seconds         DOUBLE NOT NULL,       -- GPUs of the node times its length
    held_gpu_seconds    DOUBLE                 -- of these held by Slurm's attempts; null: attempts with unknown GPUs ran
);
