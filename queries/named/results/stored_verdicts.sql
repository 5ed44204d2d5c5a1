-- One row is the verdicts on the configured claims of a cluster as the last computation stored them, as JSON; none unless that is the newest change.
SELECT substr(f.value, strpos(f.value, ' ') + 1) AS verdicts
FROM meta AS f
WHERE f.key = 'verdicts of ' || $cluster
  AND split_part(f.value, ' ', 1) = (SELECT value FROM meta WHERE key = 'data_version');
