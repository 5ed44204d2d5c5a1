-- One row is an attempt of a run that ended otherwise than by completing: the components of a heterogeneous job are interrupted once, together, with their GPUs and nodes added up.
CREATE OR REPLACE VIEW run_interruptions AS
WITH several AS (
    -- By digests, since a group for each of millions of attempts is long; equal keys have equal digests.
    SELECT hash(cluster, run_id, attempt_no) AS digest FROM interruptions GROUP BY digest HAVING COUNT(*) > 1
)
SELECT * FROM interruptions WHERE hash(cluster, run_id, attempt_no) NOT IN (SELECT digest FROM several)
UNION ALL
-- The component that represents all, as metrics.restarts.restarts.once chooses it.
SELECT * REPLACE (
    CASE
        WHEN COUNT(n_gpus) OVER whole = COUNT(*) OVER whole THEN CAST(SUM(n_gpus) OVER whole AS DECIMAL(12, 3))
    END AS n_gpus,
    CAST(SUM(n_nodes) OVER whole AS BIGINT) AS n_nodes
)
FROM interruptions
WHERE hash(cluster, run_id, attempt_no) IN (SELECT digest FROM several)
WINDOW whole AS (PARTITION BY cluster, run_id, attempt_no)
QUALIFY ROW_NUMBER() OVER (
    PARTITION BY cluster, run_id, attempt_no
    ORDER BY
        CASE WHEN class = 'infrastructure' THEN 0 WHEN cause = 'cancelled' THEN 2 ELSE 1 END,
        node IS NULL,
        detail IS NOT DISTINCT FROM 'state ' || state,
        TRY_CAST(job_id AS BIGINT) NULLS LAST,
        job_id,
        submitted_at
) = 1;
