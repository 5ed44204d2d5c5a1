-- One row is a user of Slurm's accounting with a number that he or she had: when it was first and last submitted with, before a moment.
SELECT cluster, "user", uid, MIN(submitted_at) AS first_at, MAX(submitted_at) AS last_at
FROM stored.attempts
WHERE cluster = $cluster AND scheduler = 'slurm' AND "user" IS NOT NULL AND uid IS NOT NULL AND submitted_at < $until
GROUP BY ALL
ORDER BY ALL;
