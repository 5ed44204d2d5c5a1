-- One row is a UTC day of which the tests of anomalies of a cluster are stored, with the digest of what they were made of; a day whose file is gone is left out.
SELECT day, inputs, hours, busy_hours, compared_hours, device_hours, computed_at
FROM anomaly_days
SEMI JOIN (
    SELECT DISTINCT day FROM partitions
    WHERE table_name = 'anomaly_sums' AND cluster = $cluster AND removed_version IS NULL
) USING (day)
WHERE cluster = $cluster
ORDER BY day;
