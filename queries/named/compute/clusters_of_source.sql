-- One row is a cluster of which a source was loaded.
SELECT DISTINCT cluster FROM loads WHERE source = $source ORDER BY cluster;
