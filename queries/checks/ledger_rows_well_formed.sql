-- stop: a row of the ledger is empty, crosses a UTC midnight, or names a category of another state
SELECT *
FROM gpu_time
WHERE started_at >= $since
  AND (
      started_at >= ended_at
      OR gpus <= 0
      OR epoch_us(started_at) // 86400000000 <> (epoch_us(ended_at) - 1) // 86400000000
      OR CASE state
           WHEN 'unavailable' THEN category NOT IN ('maintenance', 'down', 'drained', 'unknown')
           WHEN 'idle' THEN category NOT IN ('no_demand', 'pending_demand')
           WHEN 'allocated' THEN category NOT IN (
               'productive', 'lost', 'startup', 'checkpoint', 'stalled', 'teardown', 'other_work', 'unattributed'
           )
           ELSE TRUE
         END
      OR (job_id IS NOT NULL AND state <> 'allocated')
      -- GPUs beside attempts that held an unknown number of them belong to no attempt.
      OR (state = 'allocated' AND job_id IS NULL AND cause IS DISTINCT FROM 'gpus_unknown')
      OR (cause = 'gpus_unknown' AND (job_id IS NOT NULL OR category NOT IN ('unattributed', 'maintenance', 'down', 'drained', 'unknown')))
  );
