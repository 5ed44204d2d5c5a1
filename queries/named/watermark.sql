-- One row is the last moment that the loads of a source of a cluster speak for. There may be gaps before it.
SELECT MAX(covers_until) AS covers_until FROM loads WHERE cluster = $cluster AND source = $source;
