-- Kubernetes, read live.

-- One row is up to where a kind of objects was read from an API server: the next reading goes on from there.
CREATE TABLE object_versions (
    cluster             VARCHAR NOT NULL,      -- cluster
    server              VARCHAR NOT NULL,      -- address of the API server
    resource            VARCHAR NOT NULL,      -- group, version and plural: batch/v1/jobs
    version             VARCHAR NOT NULL,      -- the server's resource version of the last list
    seen_at             TIMESTAMPTZ NOT NULL,  -- when that was read
    PRIMARY KEY (cluster, server, resource)
);
