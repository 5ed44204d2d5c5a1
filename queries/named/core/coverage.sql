-- One row is the window of one load of a source of a cluster. Files of node events do not record when they were made:
-- where it was not passed (--until), they are taken to reach as far as the accounting does. The source 'accounting' is
-- Slurm's, or Kubernetes' objects in a cluster without.
SELECT
    cluster,
    covers_from AS started_at,
    CASE source
        WHEN 'slurm.events' THEN COALESCE(covers_until, MAX(covers_until) FILTER (source = 'slurm.accounting') OVER ())
        ELSE covers_until
    END AS ended_at,
    loaded_at
FROM loads
WHERE cluster = $cluster
QUALIFY source = CASE
    WHEN $source <> 'accounting' THEN $source
    WHEN COUNT(*) FILTER (source = 'slurm.accounting') OVER () > 0 THEN 'slurm.accounting'
    ELSE 'kubernetes.objects'
END;
