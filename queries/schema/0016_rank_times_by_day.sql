-- Rank times live in Parquet, as samples do, a file per cluster and day: a large run has hundreds of millions of rows.

-- One row is what a rank did over some training steps of a session.
CREATE TABLE raw.rank_steps (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run, as the log names it
    session             VARCHAR NOT NULL,      -- the process group: job id and restart count, or empty
    rank                BIGINT NOT NULL,       -- rank, one GPU
    started_at          TIMESTAMPTZ NOT NULL,  -- beginning of the first of the steps (the training node's clock)
    ended_at            TIMESTAMPTZ NOT NULL,  -- end of the last one
    scheduler           VARCHAR NOT NULL,      -- slurm, ...
    job_id              VARCHAR,               -- the scheduler's raw id
    node                VARCHAR NOT NULL,      -- host name
    local_rank          BIGINT,                -- number of the rank on its node
    stage               BIGINT,                -- pipeline stage; null: the job has none
    first_step          BIGINT NOT NULL,       -- number of the first of the steps
    steps               BIGINT NOT NULL,       -- how many steps
    compute_s           DOUBLE NOT NULL,       -- seconds of computation, waiting left out
    wait_s              DOUBLE                 -- seconds of waiting for other ranks; null: unknown
);

-- Rows that are there already stay in the table itself, which the view of the same name reads, too.
INSERT INTO raw.rank_steps SELECT * FROM main.rank_steps;
DROP TABLE rank_steps;
