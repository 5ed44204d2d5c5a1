-- What nodes did, day by day: what filesystems and networks carried in a time is the sum of its whole days and of samples at its ends.

-- One row is a series of a node on a day with samples of it that begin on that day. Times are whole milliseconds, values are value x seconds: of a rate, how much there was of it. Computed.
CREATE TABLE raw.node_day_sums (
    cluster             VARCHAR NOT NULL,      -- cluster
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning of the day
    node                VARCHAR NOT NULL,      -- node
    metric              VARCHAR NOT NULL,      -- metric of node_samples
    device              VARCHAR NOT NULL,      -- port, interface, disk or mount; empty for the whole node
    observed            BIGINT NOT NULL,       -- time that samples cover
    value               DOUBLE NOT NULL,       -- value x seconds of it
    attributed          BIGINT NOT NULL,       -- of the time: one attempt was alone on the node
    attributed_value    DOUBLE NOT NULL,       -- value x seconds of it
    checks              BIGINT NOT NULL,       -- of the time: only a node check was there
    checks_value        DOUBLE NOT NULL,       -- value x seconds of it
    shared              BIGINT NOT NULL,       -- of the time: several attempts were there, or one came or went within an hour with only a mean
    shared_value        DOUBLE NOT NULL,       -- value x seconds of it
    outside             BIGINT NOT NULL,       -- of the time: no attempt was there
    outside_value       DOUBLE NOT NULL        -- value x seconds of it
);

-- One row is an attempt on a node on a day with samples of a series of it that begin on that day. Times are whole milliseconds, values are value x seconds. Computed.
CREATE TABLE raw.attempt_node_day_sums (
    cluster             VARCHAR NOT NULL,      -- cluster
    ts                  TIMESTAMPTZ NOT NULL,  -- beginning of the day
    scheduler           VARCHAR NOT NULL,      -- attempt
    job_id              VARCHAR NOT NULL,      -- attempt
    submitted_at        TIMESTAMPTZ NOT NULL,  -- attempt
    node                VARCHAR NOT NULL,      -- node
    metric              VARCHAR NOT NULL,      -- metric of node_samples
    device              VARCHAR NOT NULL,      -- port, interface, disk or mount; empty for the whole node
    observed            BIGINT NOT NULL,       -- time that samples cover while it was alone on the node
    value               DOUBLE NOT NULL,       -- value x seconds of it
    shared              BIGINT NOT NULL,       -- time that samples cover while others were there, too, or in hours with only a mean in which one came or went
    shared_value        DOUBLE NOT NULL        -- value x seconds of it, for the whole node
);

-- One row is a UTC day of which the sums of nodes are stored. Computed.
CREATE TABLE node_activity_days (
    cluster             VARCHAR NOT NULL,      -- cluster
    day                 DATE NOT NULL,         -- UTC day
    inputs              VARCHAR NOT NULL,      -- digest of all that its sums depend on
    after               VARCHAR NOT NULL,      -- of that: what the next day's telemetry is made of
    firsts              VARCHAR NOT NULL,      -- of that: digest of the first samples of the next day, up to which this day's last ones are valid
    n_series            BIGINT NOT NULL,       -- rows of it in node_day_sums
    n_attempts          BIGINT NOT NULL        -- rows of it in attempt_node_day_sums
);
