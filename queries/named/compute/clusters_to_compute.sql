-- One row is a cluster that data were loaded of, or that was computed and whose data are gone since: nothing is to be left of it.
SELECT cluster FROM loads
UNION
SELECT cluster FROM computes
ORDER BY cluster;
