-- Writes nothing new: takes the sums of the days of a cluster's ledger from one UTC midnight (null: from its beginning) to another (null: to its end) away.
DELETE FROM day_sums
WHERE cluster = $cluster
  AND day >= COALESCE(CAST(make_timestamp(epoch_us($since::TIMESTAMPTZ)) AS DATE), '-infinity')
  AND day < COALESCE(CAST(make_timestamp(epoch_us($until::TIMESTAMPTZ)) AS DATE), 'infinity');
