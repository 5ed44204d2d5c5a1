-- One row is the window of one load of a source of a cluster. Files of node events do not record when they were made:
-- where it was passed (--until) in no load of the file, they are taken to reach as far as the accounting does. The sources 'accounting' and
-- 'node_states' are Slurm's, or in a cluster without Slurm's accounting Kubernetes' objects; with them, 'accounting' is
-- kube-state-metrics' pods, too, and without both Determined's allocations. Without lists of nodes, 'node_states' are
-- kube-state-metrics'. Between two readings of objects the time counts as observed,
-- but work is observed only from the first reading of pods on: lists of other kinds before it do not show any.
WITH first_pods AS (
    SELECT MIN(l.covers_until) AS ts
    FROM loads AS l
    LEFT JOIN object_lists AS o ON l.cluster = o.cluster AND o.kind = 'Pod' AND l.covers_until = o.seen_at
    WHERE l.cluster = $cluster
      AND l.source = 'kubernetes.objects'
      AND (l.covers_from < l.covers_until OR o.kind IS NOT NULL)
)
SELECT
    cluster,
    CASE source
        WHEN 'kubernetes.objects' THEN LEAST(covers_from, LAG(covers_until) OVER (PARTITION BY source ORDER BY covers_until))
        ELSE covers_from
    END AS started_at,
    CASE source
        WHEN 'slurm.events' THEN COALESCE(
            covers_until,
            MAX(covers_until) FILTER (digest IS NOT NULL) OVER (PARTITION BY source, digest),
            MAX(covers_until) FILTER (source = 'slurm.accounting') OVER ()
        )
        ELSE covers_until
    END AS ended_at,
    loaded_at
FROM loads
CROSS JOIN first_pods AS f
WHERE cluster = $cluster
  AND (source <> 'kubernetes.objects' OR $source <> 'accounting' OR covers_until >= COALESCE(f.ts, covers_until))
QUALIFY source = CASE
    WHEN $source = 'accounting' AND COUNT(*) FILTER (source = 'slurm.accounting') OVER () > 0 THEN 'slurm.accounting'
    WHEN $source = 'accounting' AND source IN ('kubernetes.objects', 'prometheus.pods') THEN source
    WHEN
        $source = 'accounting'
        AND COUNT(*) FILTER (source IN ('kubernetes.objects', 'prometheus.pods')) OVER () > 0 THEN 'kubernetes.objects'
    WHEN $source = 'accounting' THEN 'determined.allocations'
    WHEN
        $source = 'node_states'
        AND COUNT(*) FILTER (source = 'slurm.accounting') OVER () = 0
        AND EXISTS (SELECT 1 FROM object_lists AS o WHERE o.cluster = $cluster AND o.kind = 'Node') THEN 'kubernetes.objects'
    WHEN
        $source = 'node_states'
        AND COUNT(*) FILTER (source = 'slurm.accounting') OVER () = 0
        AND EXISTS (SELECT 1 FROM metered_node_states AS o WHERE o.cluster = $cluster) THEN 'prometheus.pods'
    WHEN $source = 'node_states' THEN 'slurm.events'
    ELSE $source
END;
