-- The warehouse's own records. The comments of tables and columns become the data dictionary.

-- One row is a fact about the warehouse itself: data_version, written_by, root.
CREATE TABLE meta (
    key                 VARCHAR NOT NULL,      -- name of the fact
    value               VARCHAR NOT NULL       -- its value as text
);

-- One row is a schema step that has been applied to this warehouse.
CREATE TABLE schema_steps (
    step                INTEGER NOT NULL,      -- number of the file in queries/schema
    name                VARCHAR NOT NULL,      -- its file name
    sha256              VARCHAR NOT NULL       -- digest of its text, without comments, when it was applied
);

-- One row is one load of one source: what was read, what came of every row, which time it covers.
CREATE TABLE loads (
    cluster             VARCHAR NOT NULL,      -- cluster the rows belong to
    source              VARCHAR NOT NULL,      -- slurm.accounting, slurm.events, slurm.nodes, slurm.config, ...
    origin              VARCHAR NOT NULL,      -- file name, or the command that was run
    digest              VARCHAR,               -- sha256 of the bytes read
    loaded_at           TIMESTAMPTZ NOT NULL,  -- when (the loader's clock)
    covers_from         TIMESTAMPTZ,           -- the load covers the time from here ...
    covers_until        TIMESTAMPTZ,           -- ... to here (the source's clock)
    rows_read           BIGINT NOT NULL,       -- input rows; equals loaded + duplicate + skipped + rejected
    rows_loaded         BIGINT NOT NULL,       -- rows taken in (new or the same again)
    rows_duplicate      BIGINT NOT NULL,       -- rows that repeat an attempt within this input
    rows_skipped        BIGINT NOT NULL,       -- rows that are not of this kind by design (job steps, headers)
    rows_rejected       BIGINT NOT NULL,       -- rows refused; each is in rejects with its reason
    columns             VARCHAR[],             -- columns the input carried
    warnings            VARCHAR[],             -- what a person should know about this load
    rows_new            BIGINT                 -- how many of the rows taken in made the source's table grow; null where that is not counted
);

-- One row is an input row that was refused, kept with its reason. The same row refused twice is kept once.
CREATE TABLE rejects (
    cluster             VARCHAR NOT NULL,      -- cluster that was being loaded
    source              VARCHAR NOT NULL,      -- as in loads
    origin              VARCHAR NOT NULL,      -- where it was first seen
    line                BIGINT,                -- line number there, counted from 1
    reason              VARCHAR NOT NULL,      -- why it was refused
    raw                 VARCHAR NOT NULL       -- the row as it came, at most 4,000 characters
);

-- One row is a Parquet file of a sample table, or of a retired one that an older published copy may still read.
CREATE TABLE partitions (
    table_name          VARCHAR NOT NULL,      -- gpu_samples, node_samples or steps
    cluster             VARCHAR NOT NULL,      -- cluster of all its rows
    day                 DATE NOT NULL,         -- UTC day of all its rows
    path                VARCHAR NOT NULL,      -- path below the warehouse directory
    rows                BIGINT NOT NULL,       -- number of rows
    bytes               BIGINT NOT NULL,       -- size of the file
    sha256              VARCHAR NOT NULL,      -- digest of the file
    added_version       BIGINT NOT NULL,       -- data_version that brought it
    removed_version     BIGINT                 -- data_version that replaced it; null while it counts
);

-- One row is a Parquet file of samples that was damaged or missing and is not used any more (trackside doctor --repair).
CREATE TABLE lost_files (
    cluster             VARCHAR NOT NULL,      -- cluster of its rows
    table_name          VARCHAR NOT NULL,      -- gpu_samples, node_samples, cluster_samples or steps
    day                 DATE NOT NULL,         -- UTC day of its rows
    path                VARCHAR NOT NULL,      -- path below the warehouse directory; the damaged file is below set-aside/
    what                VARCHAR NOT NULL,      -- what was wrong with it
    rows                BIGINT NOT NULL,       -- rows that the day had before
    noticed_at          TIMESTAMPTZ NOT NULL   -- when it was set aside
);

-- One row is a removal by `trackside retention`. No rows are removed without one.
CREATE TABLE removals (
    removed_at          TIMESTAMPTZ NOT NULL,  -- when
    cluster             VARCHAR NOT NULL,      -- cluster
    table_name          VARCHAR NOT NULL,      -- table
    before              TIMESTAMPTZ NOT NULL,  -- rows before this time were removed
    rows                BIGINT NOT NULL        -- how many
);
