-- One row is the last moment that the loads of a source of a cluster speak for. There may be gaps before it.
-- Loads that were asked for a time to come tell nothing of it, and what is of one moment speaks for no time.
SELECT MAX(LEAST(covers_until, loaded_at)) AS covers_until
FROM loads
WHERE cluster = $cluster AND source = $source AND covers_until > covers_from;
