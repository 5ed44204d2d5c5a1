-- One row is an attempt of a run that ended otherwise than by completing: the components of a heterogeneous job are interrupted once, together, with their GPUs and nodes added up.
CREATE OR REPLACE VIEW run_interruptions AS
-- The component that stands for all, as metrics.restarts.restarts.once chooses it.
SELECT * REPLACE (
    CASE
        WHEN COUNT(n_gpus) OVER whole = COUNT(*) OVER whole THEN CAST(SUM(n_gpus) OVER whole AS DECIMAL(12, 3))
    END AS n_gpus,
    CAST(SUM(n_nodes) OVER whole AS BIGINT) AS n_nodes
)
FROM interruptions
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
