-- One row is a cluster whose accounting records GPUs (gres/gpu in AccountingStorageTRES), with the time from which on it is known to do so. An attempt that started later and whose TRES name no GPU held none; of an earlier one, or of one without TRES, that is unknown.
CREATE OR REPLACE VIEW accounted_gpus AS
WITH first_recorded AS (
    SELECT cluster, MIN(COALESCE(started_at, submitted_at)) AS ts
    FROM stored.attempts
    WHERE scheduler = 'slurm' -- records of other schedulers are no evidence about Slurm's accounting
      AND (
          n_gpus > 0
          OR (n_gpus = 0 AND node_list IS NOT NULL)
          OR (req_gpus > 0 AND contains(req_tres, 'gres/gpu'))
      )
    GROUP BY cluster
),
-- Attempts that held or requested GPUs by another source, while their TRES name none: not recorded yet at that time.
contradicted AS (
    SELECT a.cluster
    FROM stored.attempts AS a
    JOIN first_recorded AS f USING (cluster)
    LEFT JOIN job_gpus AS j
        ON a.cluster = j.cluster AND a.job_id = j.job_id AND date_trunc('second', a.submitted_at) = j.submitted_at
    WHERE a.n_gpus IS NULL
      AND GREATEST(j.gpus_held, j.gpus_asked, a.gpus_steps, a.gpus_asked) > 0
      AND COALESCE(a.started_at, a.submitted_at) < f.ts
    GROUP BY a.cluster
),
configured AS (
    SELECT s.cluster, MIN(COALESCE(l.covers_until, l.loaded_at)) AS ts
    FROM cluster_settings AS s
    JOIN loads AS l ON l.cluster = s.cluster AND l.source = 'slurm.config'
    WHERE s.name = 'AccountingStorageTRES' AND regexp_matches(s.value, '(^|,)gres/gpu(:|,|$)')
    GROUP BY s.cluster
)
SELECT
    cluster,                                                                         -- cluster
    -- The jobs that began shortly before the first one with a GPU were CPU jobs, without evidence to the contrary.
    LEAST(f.ts - CASE WHEN c.cluster IS NULL THEN INTERVAL 1 DAY ELSE INTERVAL 0 DAY END, s.ts) AS since -- from when on; a day before the first record of a GPU, or when scontrol show config was read
FROM first_recorded AS f
LEFT JOIN contradicted AS c USING (cluster)
FULL JOIN configured AS s USING (cluster);
