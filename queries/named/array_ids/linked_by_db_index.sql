-- One row is a started attempt stored under its raw id with the displayed id of the same row of the accounting database:
-- another load has that attempt under the displayed id, with the same db_index and second of submission. Submitted in the time given.
WITH by_display AS (
    SELECT cluster, scheduler, db_index, date_trunc('second', submitted_at) AS "second", MIN(job_id) AS shown
    FROM stored.attempts
    WHERE
        scheduler = 'slurm' AND (contains(job_id, '_') OR contains(job_id, '+'))
        AND submitted_at BETWEEN $since AND $until AND db_index IS NOT NULL AND started_at IS NOT NULL
    GROUP BY ALL
)
SELECT a.* REPLACE (d.shown AS display_id)
FROM stored.attempts AS a
JOIN by_display AS d
    ON a.cluster = d.cluster AND a.scheduler = d.scheduler AND a.db_index = d.db_index
    AND date_trunc('second', a.submitted_at) = d."second"
WHERE
    a.submitted_at BETWEEN $since AND $until AND a.started_at IS NOT NULL
    AND NOT (contains(a.job_id, '_') OR contains(a.job_id, '+'));
