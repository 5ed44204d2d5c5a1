-- One row is time between the first and the last load of Slurm's accounting or node events, or of telemetry, of a cluster that no load covers.
-- Where node events are read live, they are needed for all the time of the accounting. A dump of them does not record its beginning.
-- GPU telemetry by the hour is GPU telemetry.
CREATE OR REPLACE VIEW load_gaps AS
WITH spans AS (
    SELECT
        cluster,
        CASE source WHEN 'prometheus.gpu_hours' THEN 'prometheus.gpu' ELSE source END AS source,
        covers_from,
        -- A file of node events does not record when it was made: where no load of it states that (--until), it is taken
        -- to reach as far as the accounting does.
        CASE source
            WHEN 'slurm.events' THEN COALESCE(
                covers_until,
                MAX(covers_until) FILTER (digest IS NOT NULL) OVER (PARTITION BY cluster, source, digest),
                MAX(covers_until) FILTER (source = 'slurm.accounting') OVER (PARTITION BY cluster)
            )
            ELSE covers_until
        END AS covers_until
    FROM loads
    WHERE source IN ('slurm.accounting', 'slurm.events', 'prometheus.gpu', 'prometheus.gpu_hours', 'prometheus.node')
),
known AS (
    SELECT * FROM spans WHERE covers_until > covers_from
    UNION ALL BY NAME
    SELECT
        cluster,
        'slurm.events' AS source,
        UNNEST([MIN(covers_from), MAX(covers_until)]) AS covers_from,
        UNNEST([MIN(covers_from), MAX(covers_until)]) AS covers_until
    FROM spans
    WHERE source = 'slurm.accounting' AND covers_until > covers_from
    GROUP BY cluster
    HAVING cluster IN (SELECT cluster FROM loads WHERE source = 'slurm.events' AND transport = 'command')
),
reached AS (
    SELECT
        cluster,
        source,
        MAX(covers_until) OVER (
            PARTITION BY cluster, source
            ORDER BY covers_from, covers_until
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS started_at,
        covers_from AS ended_at
    FROM known
)
SELECT
    cluster,
    source,
    started_at,
    ended_at,
    epoch(ended_at - started_at) AS gap_s
FROM reached
WHERE ended_at > started_at;
