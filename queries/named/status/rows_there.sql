-- One row is a table that a source of a cluster feeds, and how many rows of that source it has now.
-- Samples and steps lie in Parquet files, whose rows are counted when they are written.
WITH counted AS (
    SELECT cluster, 'slurm.accounting' AS source, 'attempts' AS fed, COUNT(*) AS n FROM stored.attempts GROUP BY cluster
    UNION ALL
    SELECT cluster, source, 'node_states', COUNT(*) FROM node_states WHERE source = 'slurm.events' GROUP BY ALL
    UNION ALL
    SELECT cluster, 'slurm.nodes', 'nodes', COUNT(*) FROM nodes GROUP BY cluster
    UNION ALL
    SELECT cluster, 'slurm.config', 'cluster_settings', COUNT(*) FROM cluster_settings GROUP BY cluster
    UNION ALL
    SELECT cluster, 'slurm.topology', 'node_topology', COUNT(*) FROM node_topology GROUP BY cluster
    UNION ALL
    SELECT cluster, 'slurm.reservations', 'reservations', COUNT(*) FROM reservations GROUP BY cluster
    UNION ALL
    SELECT cluster, 'slurm.associations', 'associations', COUNT(*) FROM associations GROUP BY cluster
    UNION ALL
    SELECT cluster, 'slurm.associations', 'users', COUNT(*) FROM users GROUP BY cluster
    UNION ALL
    SELECT cluster, 'slurm.qos', 'qos', COUNT(*) FROM qos GROUP BY cluster
    UNION ALL
    SELECT cluster, 'slurm.transactions', 'transactions', COUNT(*) FROM transactions GROUP BY cluster
    UNION ALL
    SELECT cluster, 'slurm.diag', 'scheduler_stats', COUNT(*) FROM scheduler_stats GROUP BY cluster
    UNION ALL
    SELECT cluster, 'slurm.jobs', 'job_gpus', COUNT(*) FROM job_gpus GROUP BY cluster
    UNION ALL
    SELECT cluster, 'slurm.runaway', 'runaway_jobs', COUNT(*) FROM runaway_jobs GROUP BY cluster
    UNION ALL
    SELECT
        cluster,
        CASE table_name
            WHEN 'steps' THEN 'runlog'
            WHEN 'node_samples' THEN 'prometheus.node'
            WHEN 'cluster_samples' THEN 'prometheus.slurm'
            ELSE 'prometheus.gpu'
        END,
        table_name,
        CAST(SUM(rows) AS BIGINT)
    FROM partitions
    WHERE removed_version IS NULL AND table_name IN ('gpu_samples', 'node_samples', 'cluster_samples', 'steps')
    GROUP BY ALL
    UNION ALL
    SELECT cluster, 'prometheus.gpu_hours', 'gpu_hours', COUNT(*) FROM gpu_hours GROUP BY cluster
    UNION ALL
    SELECT cluster, 'prometheus.node', 'node_hours', COUNT(*) FROM node_hours GROUP BY cluster
    UNION ALL
    SELECT cluster, source, 'health_events', COUNT(*) FROM health_events GROUP BY ALL
    UNION ALL
    SELECT cluster, 'prometheus.kubernetes', 'node_aliases', COUNT(*) FROM node_aliases GROUP BY cluster
    UNION ALL
    SELECT cluster, 'runlog', 'run_sessions', COUNT(*) FROM run_sessions GROUP BY cluster
    UNION ALL
    SELECT cluster, 'runlog', 'run_events', COUNT(*) FROM run_events GROUP BY cluster
)
SELECT cluster, source, fed, n FROM counted
ORDER BY cluster, source, fed;
