-- Writes when, by whom and why a person's correction was taken back; the first time counts.
UPDATE adjudications
SET withdrawn_at = $at, withdrawn_by = $author, withdrawn_reason = $reason
WHERE id = $id AND withdrawn_at IS NULL;
