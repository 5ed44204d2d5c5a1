-- One row is how often an input of the same bytes was loaded as this source.
SELECT COUNT(*) AS n FROM loads WHERE source = $source AND digest = $digest;
