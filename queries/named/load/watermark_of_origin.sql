-- One row is the last moment, up to a latest one, that the loads of a source of a cluster from one origin cover.
SELECT MAX(covers_until) AS covers_until
FROM loads
WHERE cluster = $cluster AND source = $source AND origin = $origin AND covers_until <= $latest;
