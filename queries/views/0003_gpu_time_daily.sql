-- One row is a UTC day of a cluster in one category of the ledger. A day's rows add up to its capacity.
CREATE OR REPLACE VIEW gpu_time_daily AS
SELECT cluster, day, state, category, cause, evidence, gpu_seconds
FROM day_sums;
