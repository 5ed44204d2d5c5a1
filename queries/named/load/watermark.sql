-- One row is the last moment that the loads of a source of a cluster cover. There may be gaps before it.
-- Loads that were requested for a future time do not cover it, and a snapshot covers no time.
SELECT MAX(LEAST(covers_until, loaded_at)) AS covers_until
FROM loads
WHERE cluster = $cluster AND source = $source AND covers_until > covers_from;
