-- One row is what a rank did over some training steps that a window has the beginning of: of all runs, or of the run or job named.
SELECT cluster, session, run_id, rank, node, stage, first_step, steps, compute_s, wait_s,
    (epoch_us(ended_at) - epoch_us(started_at)) / 1e6 AS wall_s
FROM rank_steps
WHERE cluster = $cluster AND started_at >= $since AND started_at < $until
    AND ($run IS NULL OR run_id = $run OR job_id = $run);
