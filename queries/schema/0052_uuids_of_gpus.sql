-- Which GPU has which UUID: some exporters give the index, some the UUID alone, and an input may hold either.

-- One row is a UUID that telemetry named beside the index of a GPU of a node; a node has several of an index whose GPU was replaced.
CREATE TABLE gpu_uuids (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    uuid                VARCHAR NOT NULL,      -- UUID in small letters, without the GPU- before it
    gpu                 VARCHAR NOT NULL,      -- index
    first_seen_at       TIMESTAMPTZ NOT NULL   -- first reading with both
);
