-- One row is a GPU sample of a cluster that begins in a time.
SELECT * FROM gpu_samples WHERE cluster = $cluster AND ts >= $since AND ts < $until ORDER BY node, gpu, ts;
