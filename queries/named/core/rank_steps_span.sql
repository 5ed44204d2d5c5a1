-- One row is the time that rank times of a cluster cover; nulls where there are none.
SELECT min(started_at) AS since, max(ended_at) AS until FROM rank_steps WHERE cluster = $cluster;
