-- Tests of GPUs, nodes, ports and mounts against their peers and their past, summed up once a day.

-- One row is a test on a day, with the sums that days in a row are joined by. Computed; see metrics/anomalies/day_sums.py.
CREATE TABLE raw.anomaly_sums (
    cluster             VARCHAR NOT NULL,      -- cluster
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning of the day
    signal              VARCHAR NOT NULL,      -- what was compared
    level               VARCHAR NOT NULL,      -- gpu or node
    node                VARCHAR NOT NULL,      -- node
    device              VARCHAR NOT NULL,      -- GPU, port or mount; empty: the node itself
    against             VARCHAR NOT NULL,      -- peers or past
    sign                BIGINT NOT NULL,       -- -1: less is bad, 1: more is, 0: not tested
    n                   BIGINT NOT NULL,       -- hours that were tested
    median              DOUBLE,                -- median deviation of the day
    apart               DOUBLE,                -- robust standard deviation by which subjects differ
    immaterial          DOUBLE,                -- deviation up to which it does not matter
    rate                DOUBLE,                -- what a unit beyond that adds to the sum
    sigma               DOUBLE,                -- robust standard deviation of hours
    gain                FLOAT,                 -- what all hours add
    moved               FLOAT,                 -- their deviations, added up
    lead                FLOAT,                 -- highest sum from the beginning of the day on
    lead_moved          FLOAT,                 -- deviations up to there
    lead_hours          BIGINT,                -- hours up to there
    lead_until          BIGINT,                -- its end, in hours since 1970
    height              FLOAT,                 -- cumulative sum at the end of the day, were it 0 at its beginning
    total               FLOAT,                 -- deviations since it was 0
    start               BIGINT,                -- first hour since it was 0, since 1970
    hours               BIGINT,                -- hours since it was 0
    top                 FLOAT,                 -- the highest cumulative sum on the way
    top_total           FLOAT,                 -- deviations of its stretch
    top_start           BIGINT,                -- first hour of it
    top_until           BIGINT,                -- the hour after it
    top_hours           BIGINT                 -- hours of it
);

-- One row is a day of which the tests of anomalies are stored. Computed.
CREATE TABLE anomaly_days (
    cluster             VARCHAR NOT NULL,      -- cluster
    day                 DATE NOT NULL,         -- UTC day
    inputs              VARCHAR NOT NULL,      -- digest of what the tests of the day depend on: this day and the 28 before
    hours               BIGINT NOT NULL,       -- hours of the day that lay within what was computed
    busy_hours          BIGINT NOT NULL,       -- hours in which GPUs were busy
    compared_hours      BIGINT NOT NULL,       -- of these, those with at least three peers
    device_hours        BIGINT NOT NULL,       -- hours of ports and mounts that were compared
    computed_at         TIMESTAMPTZ NOT NULL   -- when they were computed
);
