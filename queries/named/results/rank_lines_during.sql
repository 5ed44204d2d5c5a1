-- One row is what a rank of a run did over some training steps that began in a time and were not over at its end's beginning: those that span a stall.
SELECT cluster, run_id, rank, node, stage, first_step, steps, compute_s, wait_s, job_id, started_at, ended_at
FROM rank_steps
WHERE cluster = $cluster AND started_at >= $since AND started_at < $until
    AND run_id = $run AND ended_at > $began
ORDER BY run_id, rank, started_at;
