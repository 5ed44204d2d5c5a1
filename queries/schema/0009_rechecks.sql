-- Open jobs that no window of accounting shows any more, asked for one by one.

-- One row is an attempt without an end that was asked for by its job id, and whether accounting still knew it.
CREATE TABLE rechecks (
    cluster             VARCHAR NOT NULL,      -- cluster
    scheduler           VARCHAR NOT NULL,      -- as in attempts
    job_id              VARCHAR NOT NULL,      -- as in attempts
    submitted_at        TIMESTAMPTZ NOT NULL,  -- as in attempts
    checked_at          TIMESTAMPTZ NOT NULL,  -- when it was last asked for
    known               BOOLEAN NOT NULL       -- whether accounting then had a record of it
);
