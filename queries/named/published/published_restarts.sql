-- One row is a restart of a run after an interruption, with the times that it took; unknown where no record has them.
SELECT
    cluster,
    run_id AS run,
    class,
    cause,
    CAST(n_gpus AS DOUBLE) AS gpus,
    interrupted_at,
    restarted_at,
    time_to_detect_s,
    queue_s,
    time_to_job_restart_s,
    time_to_first_step_s,
    time_to_recover_s
FROM restarts
ORDER BY ALL;
