-- Loads that claim a time later than `$latest` reach no further than the moment when they were made.
UPDATE loads
SET
    covers_from = CASE WHEN covers_from <= loaded_at THEN covers_from END,
    covers_until = CASE WHEN covers_from <= loaded_at THEN LEAST(covers_until, loaded_at) END
WHERE covers_from > $latest OR covers_until > $latest;
