-- What telemetry says of the software of nodes.

-- One row is a version of the GPUs' driver that telemetry of a node named on a UTC day; two rows where it changed on it.
CREATE TABLE driver_versions (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning of the day
    version             VARCHAR NOT NULL,      -- version of the driver: 550.144.03
    first_seen_at       TIMESTAMPTZ NOT NULL,  -- first reading of the day with it
    last_seen_at        TIMESTAMPTZ NOT NULL   -- last reading of the day with it
);
