-- Kubernetes: pods that belong together without an object that controls them, and containers that were restarted in place.

ALTER TABLE pods ADD COLUMN gang VARCHAR; -- kind and name of the group that it belongs to, where no object that is read controls it: PodGroup/NAME, LeaderWorkerSet/NAME, Task/NAME (Determined)

-- One row is a container that ended within a pod and was started again in place, as far as its end was observed: a pod shows the latest one only.
CREATE TABLE container_ends (
    cluster             VARCHAR NOT NULL,      -- cluster
    uid                 VARCHAR NOT NULL,      -- uid of the pod
    container           VARCHAR NOT NULL,      -- name of the container
    ended_at            TIMESTAMPTZ NOT NULL,  -- when it ended
    exit_code           BIGINT,                -- its exit status
    reason              VARCHAR                -- Kubernetes' own word for how it ended: Error, OOMKilled, Completed
);
