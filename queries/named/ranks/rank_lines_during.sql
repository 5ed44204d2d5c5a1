-- One row is what a rank of a run did over some training steps that began in a time and were not over at its end's beginning: those that span a stall; and the last of each rank, whatever its end.
SELECT cluster, run_id, rank, node, stage, first_step, steps, compute_s, wait_s, job_id, started_at, ended_at
FROM rank_steps
WHERE cluster = $cluster AND started_at >= $since AND started_at < $until
    AND run_id = $run
QUALIFY ended_at > $began OR started_at = MAX(started_at) OVER (PARTITION BY session, rank)
ORDER BY run_id, rank, started_at;
