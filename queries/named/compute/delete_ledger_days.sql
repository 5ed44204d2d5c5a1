-- Writes nothing new: takes the ledger of a cluster away, but for the days that are to be kept (the frame `kept`).
DELETE FROM gpu_time AS g
WHERE g.cluster = $cluster
  AND NOT EXISTS (SELECT 1 FROM kept AS k WHERE k.day = CAST(g.started_at AS DATE));
