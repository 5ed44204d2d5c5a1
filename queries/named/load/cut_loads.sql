-- Writes the loads that claim a time later than `$latest`: they reach no further than the moment when they were made, which
-- is `$now` at the latest, since the computer's own clock may have been wrong.
UPDATE loads
SET
    loaded_at = LEAST(loaded_at, $now),
    covers_from = CASE WHEN covers_from <= LEAST(loaded_at, $now) THEN covers_from END,
    covers_until = CASE WHEN covers_from <= LEAST(loaded_at, $now) THEN LEAST(covers_until, loaded_at, $now) END
WHERE covers_from > $latest OR covers_until > $latest;
