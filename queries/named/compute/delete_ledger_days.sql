-- Writes nothing new: takes the ledger of a cluster from one UTC midnight (null: from its beginning) to another (null: to its end) away. A range, so that only the parts of the table that hold these days are read.
DELETE FROM gpu_time
WHERE cluster = $cluster
  AND started_at >= COALESCE($since::TIMESTAMPTZ, '-infinity')
  AND started_at < COALESCE($until::TIMESTAMPTZ, 'infinity');
