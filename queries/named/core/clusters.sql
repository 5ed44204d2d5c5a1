-- One row is a cluster that data were loaded of.
SELECT DISTINCT cluster FROM loads ORDER BY cluster;
