-- One row is an interruption of another run than some (the frame `replaced_runs`) that may change because of these: one that infrastructure ended, which may share an incident with theirs, or a preemption that may have made room for one of them. That made room for one of their attempts is possible where one of these began at most five minutes later (the frame `begun`: numbers of such times since 1970).
SELECT i.* EXCLUDE (n_gpus), CAST(i.n_gpus * 1000 AS BIGINT) AS milli_gpus
FROM interruptions AS i
ANTI JOIN replaced_runs USING (run_id)
WHERE i.cluster = $cluster
  AND (
      i.class = 'infrastructure'
      OR (i.class = 'preemption' AND (
          i.made_room_for IN (SELECT run_id FROM replaced_runs)
          OR CAST(floor(epoch_us(i.ended_at) / ($room_s * 1000000)) AS BIGINT) IN (SELECT slot FROM begun)
      ))
  );
