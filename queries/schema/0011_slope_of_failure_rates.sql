-- The slope of the size law beside each MTTF of one GPU: a number, where it was in the words of the note only.

ALTER TABLE failure_rates ADD COLUMN b DOUBLE; -- slope of the size law over the sizes of the row: 1 is the 1/N law; null for a range of sizes, and where the data do not determine it
ALTER TABLE failure_rates ADD COLUMN b_low DOUBLE; -- profile likelihood, 95 %; null where it is open
ALTER TABLE failure_rates ADD COLUMN b_high DOUBLE; -- profile likelihood, 95 %; null where it is open

-- Rows without these numbers are computed again, as those of any window that is not stored.
DELETE FROM failure_rates;
