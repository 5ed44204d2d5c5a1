-- What was taken out because it was damaged, so that its days are loaded again.

-- One row is a Parquet file of samples that was damaged or missing and counts no longer (trackside doctor --repair).
CREATE TABLE lost_files (
    cluster             VARCHAR NOT NULL,      -- cluster of its rows
    table_name          VARCHAR NOT NULL,      -- gpu_samples, node_samples, cluster_samples or steps
    day                 DATE NOT NULL,         -- UTC day of its rows
    path                VARCHAR NOT NULL,      -- path below the warehouse directory; the damaged file is below set-aside/
    what                VARCHAR NOT NULL,      -- what was wrong with it
    rows                BIGINT NOT NULL,       -- rows that the day had before
    noticed_at          TIMESTAMPTZ NOT NULL   -- when it was taken out
);
