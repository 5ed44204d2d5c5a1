-- One row is a UTC day of a cluster's ledger, and what it was computed from.
SELECT day, inputs, computed_at
FROM ledger_days
WHERE cluster = $cluster
ORDER BY day;
