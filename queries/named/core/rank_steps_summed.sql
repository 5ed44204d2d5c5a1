-- One row is what a rank did over `$bin` training steps of one session (as `rank_sessions` names it) that a window has the beginning of: lines added up, for a session with very many.
SELECT
    cluster,
    session,
    run_id,
    rank,
    node,
    stage,
    first_step // $bin * $bin AS first_step,
    CAST(SUM(steps) AS BIGINT) AS steps,
    SUM(compute_s) AS compute_s,
    SUM(wait_s) AS wait_s,
    SUM((epoch_us(ended_at) - epoch_us(started_at)) / 1e6) AS wall_s
FROM rank_steps
WHERE cluster = $cluster AND started_at >= $since AND started_at < $until
    AND run_id = $run AND session = $session
GROUP BY ALL
ORDER BY rank, first_step;
