-- Kubernetes, read live.

-- One row is up to where a kind of objects was read from an API server: the next reading goes on from there.
CREATE TABLE object_versions (
    cluster             VARCHAR NOT NULL,      -- cluster
    server              VARCHAR NOT NULL,      -- address of the API server
    resource            VARCHAR NOT NULL,      -- group, version and plural: batch/v1/jobs
    version             VARCHAR NOT NULL,      -- the server's resource version of the last list
    seen_at             TIMESTAMPTZ NOT NULL   -- when that was read
);

-- One row is a job of Slurm whose pod lived on after Slurm had ended it. Follows from the objects, anew when one is loaded.
CREATE TABLE outlived_jobs (
    cluster             VARCHAR NOT NULL,      -- cluster
    job_id              VARCHAR NOT NULL,      -- raw id of the job
    ended_at            TIMESTAMPTZ NOT NULL,  -- when Slurm's accounting has its end
    pod                 VARCHAR NOT NULL,      -- namespace and name of the pod
    lived_until         TIMESTAMPTZ            -- when the pod ended; null: it was there at the latest observation
);
