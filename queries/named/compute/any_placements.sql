-- One row is whether placements of a cluster's attempts are known.
SELECT EXISTS (SELECT 1 FROM placements WHERE cluster = $cluster) AS any;
