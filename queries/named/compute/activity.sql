-- One row is a stretch of time in which a GPU was active (active_share 1) or not (0) by its samples, without a gap; or
-- an hour of which a roll-up knows (nearly) all and samples do not, with its share of active time.
WITH samples AS (
    SELECT
        cluster,
        node,
        gpu,
        ts,
        -- A 32-bit float holds milliseconds, no more.
        ts + to_milliseconds(round(interval_s::DOUBLE * 1000)::BIGINT) AS ends,
        round(interval_s::DOUBLE * 1000) / 1000 AS interval_s,
        CASE
            WHEN tensor_active IS NOT NULL THEN tensor_active >= $active_tensor::FLOAT
            WHEN gr_engine_active IS NOT NULL THEN gr_engine_active >= $active_gr_engine::FLOAT
            ELSE gpu_util > $active_gpu_util::FLOAT
        END AS active
    FROM gpu_samples
    -- Whole hours, and what lasts into the first of them: the longest interval is an hour.
    WHERE cluster = $cluster
        AND ts > date_trunc('hour', $since::TIMESTAMPTZ) - INTERVAL 1 HOUR
        AND ts < date_trunc('hour', $until::TIMESTAMPTZ) + INTERVAL 1 HOUR
),

sampled_hours AS (
    SELECT node, gpu, date_trunc('hour', ts) AS ts
    FROM samples
    WHERE active IS NOT NULL
    GROUP BY ALL
    HAVING SUM(epoch_us(ends) - epoch_us(samples.ts)) >= 3540000000
),

rolled_up AS (
    SELECT cluster, node, gpu, ts, active_s / covered_s AS active_share
    FROM gpu_hours
    ANTI JOIN sampled_hours USING (node, gpu, ts)
    WHERE cluster = $cluster
        AND metric = 'active'
        AND covered_s >= 3540
        AND active_s IS NOT NULL
        AND ts > $since::TIMESTAMPTZ - INTERVAL 1 HOUR
        AND ts < $until
),

-- Samples of an hour that a roll-up speaks for are left out, and one that lasts into such an hour ends at its beginning.
alone AS (
    SELECT s.cluster, s.node, s.gpu, s.ts, LEAST(s.ends, COALESCE(r.ts, s.ends)) AS ends, s.interval_s, s.active
    FROM samples AS s
    ANTI JOIN rolled_up AS h ON s.node = h.node AND s.gpu = h.gpu AND date_trunc('hour', s.ts) = h.ts
    LEFT JOIN rolled_up AS r
        ON s.node = r.node AND s.gpu = r.gpu AND date_trunc('hour', s.ends - INTERVAL 1 MILLISECOND) = r.ts
    WHERE s.active IS NOT NULL
),

known AS (
    SELECT
        cluster,
        node,
        gpu,
        ts,
        LEAST(ends, COALESCE(LEAD(ts) OVER (PARTITION BY cluster, node, gpu ORDER BY ts), ends)) AS ends,
        interval_s,
        active
    FROM alone
),

marked AS (
    SELECT
        *,
        ts IS DISTINCT FROM LAG(ends) OVER gpu_in_time
            OR active IS DISTINCT FROM LAG(active) OVER gpu_in_time AS begins
    FROM known
    WHERE ends > $since AND ts < $until
    WINDOW gpu_in_time AS (PARTITION BY cluster, node, gpu ORDER BY ts)
),

numbered AS (
    SELECT *, COUNT(*) FILTER (begins) OVER (PARTITION BY cluster, node, gpu ORDER BY ts) AS stretch
    FROM marked
),

stretches AS (
    SELECT
        cluster,
        node,
        gpu,
        GREATEST(MIN(ts), $since::TIMESTAMPTZ) AS started_at,
        LEAST(MAX(ends), $until::TIMESTAMPTZ) AS ended_at,
        any_value(active)::DOUBLE AS active_share,
        -- The longest sample: activity of less time than that may have been anywhere within it.
        MAX(interval_s) AS interval_s
    FROM numbered
    GROUP BY cluster, node, gpu, stretch
),

hours AS (
    SELECT
        cluster,
        node,
        gpu,
        GREATEST(ts, $since::TIMESTAMPTZ) AS started_at,
        LEAST(ts + INTERVAL 1 HOUR, $until::TIMESTAMPTZ) AS ended_at,
        active_share,
        NULL::DOUBLE AS interval_s
    FROM rolled_up
)

SELECT * FROM stretches
UNION ALL
SELECT * FROM hours
ORDER BY node, gpu, started_at;
