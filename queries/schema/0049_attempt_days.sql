-- What runs and interruptions were found in, day by day: those that depend on none of the changed days are settled and stay as they are.

-- One row is a UTC day of a cluster, and digests of what its runs, interruptions and restarts depend on; a cluster whose runs are found anew each time has none. Computed.
CREATE TABLE attempt_days (
    cluster             VARCHAR NOT NULL,      -- cluster
    day                 DATE NOT NULL,         -- UTC day
    n_attempts          BIGINT NOT NULL,       -- attempts that were submitted on it
    attempts            UBIGINT,               -- digest of these and of the nodes that they held; null: there are none
    events              UBIGINT                -- digest of what happened on it at nodes that may end an attempt; null: nothing did
);
