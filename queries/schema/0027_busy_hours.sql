-- Hours of busy GPUs, added up once when samples come, so that anomalies are found without reading the samples again.

-- One row is a GPU in an hour in which a sample showed it busy, with its means while it was. Computed from gpu_samples.
CREATE TABLE raw.gpu_busy_hours (
    cluster             VARCHAR NOT NULL,      -- cluster
    node                VARCHAR NOT NULL,      -- node
    gpu                 VARCHAR NOT NULL,      -- GPU
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning of the hour
    busy_s              DOUBLE NOT NULL,       -- seconds of the hour that busy samples cover
    work                FLOAT,                 -- tensor activity, else SM activity (0-1)
    sm_clock_hz         FLOAT,                 -- SM clock
    power_w             FLOAT,                 -- power draw
    temperature_c       FLOAT,                 -- GPU temperature
    pcie_bytes_per_s    FLOAT,                 -- PCIe throughput, the greater of both directions
    nvlink_bytes_per_s  FLOAT                  -- NVLink throughput of all links, the greater of both directions
);

-- One row is a day of which the hours of busy GPUs are stored. Computed.
CREATE TABLE busy_days (
    cluster             VARCHAR NOT NULL,      -- cluster
    day                 DATE NOT NULL,         -- UTC day
    inputs              VARCHAR NOT NULL,      -- digest of the files of samples and of the rules that its hours depend on
    computed_at         TIMESTAMPTZ NOT NULL   -- when they were computed
);
