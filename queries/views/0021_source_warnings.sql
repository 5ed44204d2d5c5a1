-- One row is something about a source of a cluster that somebody should look at: it fell silent, is behind the others, or has other columns than before.
CREATE OR REPLACE VIEW source_warnings AS
WITH windows AS (
    SELECT
        cluster,
        source,
        covers_from,
        covers_until,
        loaded_at,
        rows_read,
        epoch(covers_until - covers_from) / 86400 AS days
    FROM loads
    WHERE source = 'slurm.accounting' AND covers_until > covers_from
),
newest AS (
    -- Shorter windows may well be empty.
    SELECT * FROM windows
    WHERE days >= 0.25
    QUALIFY ROW_NUMBER() OVER (PARTITION BY cluster, source ORDER BY covers_until DESC, loaded_at DESC) = 1
),
usual_by_day AS (
    -- Loads that overlap the newest one would be silent with it.
    SELECT
        w.cluster,
        w.source,
        SUM(w.rows_read) / SUM(w.days) AS rows_a_day
    FROM windows AS w
    JOIN newest AS n USING (cluster, source)
    WHERE w.covers_until <= n.covers_from AND w.covers_until > n.covers_from - INTERVAL 90 DAY
    GROUP BY w.cluster, w.source, CAST(w.covers_until AS DATE)
),
usual AS (
    SELECT cluster, source, MEDIAN(rows_a_day) AS rows_a_day
    FROM usual_by_day
    GROUP BY cluster, source
    HAVING COUNT(*) >= 3 AND MEDIAN(rows_a_day) >= 20
),
silent AS (
    SELECT
        n.cluster,
        n.source,
        'silent' AS kind,
        format(
            'only {:d} rows for {} to {}, where {:.0f} a day are usual: did an upgrade, a purge or a permission hide jobs?',
            n.rows_read,
            strftime(n.covers_from AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M'),
            strftime(n.covers_until AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M'),
            u.rows_a_day
        ) AS says
    FROM newest AS n
    JOIN usual AS u USING (cluster, source)
    WHERE n.rows_read / n.days < 0.05 * u.rows_a_day
),
times AS (
    SELECT DISTINCT cluster, source, loaded_at FROM loads
),
steps AS (
    SELECT
        cluster,
        source,
        loaded_at,
        epoch(loaded_at - LAG(loaded_at) OVER (PARTITION BY cluster, source ORDER BY loaded_at)) AS step_s
    FROM times
),
stale AS (
    -- Only what used to come again and again can stay away.
    SELECT
        s.cluster,
        s.source,
        'stale' AS kind,
        format(
            'last read {}, while others were read until {}: is it still being ingested?',
            strftime(MAX(s.loaded_at) AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M'),
            strftime(ANY_VALUE(o.loaded_at) AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M')
        ) AS says
    FROM steps AS s
    JOIN (SELECT cluster, MAX(loaded_at) AS loaded_at FROM loads GROUP BY cluster) AS o USING (cluster)
    GROUP BY s.cluster, s.source
    HAVING
        COUNT(*) >= 3
        AND epoch(ANY_VALUE(o.loaded_at) - MAX(s.loaded_at)) > GREATEST(2 * 86400, 4 * MEDIAN(s.step_s))
),
roads AS (
    -- The same question again: a command, whatever its window, or files that differ in their numbers only.
    SELECT
        cluster,
        source,
        COALESCE(
            NULLIF(regexp_extract(origin, '^(sacct|sacctmgr)\s', 1), ''), regexp_replace(origin, '[0-9]+', '#', 'g')
        ) AS road,
        loaded_at,
        columns
    FROM loads
    WHERE
        source IN ('slurm.accounting', 'slurm.events', 'slurm.associations', 'slurm.qos', 'slurm.transactions')
        AND len(columns) > 0
        AND origin <> '-'
),
recent AS (
    SELECT *, MAX(loaded_at) OVER (PARTITION BY cluster, source, road) AS newest_at
    FROM roads
    QUALIFY loaded_at > newest_at - INTERVAL 7 DAY
),
road_columns AS (
    SELECT
        cluster,
        source,
        road,
        list_distinct(flatten(LIST(columns) FILTER (loaded_at = newest_at))) AS now_there,
        list_distinct(flatten(LIST(columns) FILTER (loaded_at < newest_at))) AS once_there,
        arg_min(columns, loaded_at) AS first_there
    FROM recent
    GROUP BY cluster, source, road
    HAVING COUNT(*) FILTER (loaded_at < newest_at) > 0
),
differences AS (
    SELECT
        *,
        list_sort(list_filter(once_there, name -> NOT list_contains(now_there, name))) AS gone,
        list_sort(list_filter(now_there, name -> NOT list_contains(first_there, name))) AS come
    FROM road_columns
),
columns_changed AS (
    SELECT
        cluster,
        source,
        'columns' AS kind,
        format('the columns of {} changed within a week:', road)
        || CASE WHEN len(gone) > 0 THEN ' gone: ' || array_to_string(gone, ', ') || '.' ELSE '' END
        || CASE WHEN len(come) > 0 THEN ' new: ' || array_to_string(come, ', ') || '.' ELSE '' END
        || ' Was Slurm upgraded?' AS says
    FROM differences
    WHERE len(gone) > 0 OR len(come) > 0
)
SELECT * FROM silent
UNION ALL
SELECT * FROM stale
UNION ALL
SELECT * FROM columns_changed;
