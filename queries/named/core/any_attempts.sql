-- One row is whether the warehouse has any attempts.
SELECT EXISTS (SELECT 1 FROM stored.attempts) AS any;
