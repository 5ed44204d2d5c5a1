-- One row is what a rank did over some training steps that a window has the beginning of.
SELECT * FROM rank_steps
WHERE cluster = $cluster AND started_at >= $since AND started_at < $until;
