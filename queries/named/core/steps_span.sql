-- One row is the time that training steps of a cluster cover; nulls where there are none.
SELECT min(ts) AS since, max(ts) AS until FROM steps WHERE cluster = $cluster;
