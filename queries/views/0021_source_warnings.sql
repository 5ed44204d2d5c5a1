-- One row is something about a source of a cluster that needs attention: it fell silent, is behind the others, or has other columns than before.
CREATE OR REPLACE VIEW source_warnings AS
WITH windows AS (
    -- Shorter windows may well be empty.
    SELECT
        cluster,
        source,
        covers_from,
        covers_until,
        loaded_at,
        rows_read
    FROM loads
    WHERE source = 'slurm.accounting' AND covers_until >= covers_from + INTERVAL 6 HOUR
),
newest AS (
    SELECT * FROM windows
    QUALIFY ROW_NUMBER() OVER (PARTITION BY cluster, source ORDER BY covers_until DESC, loaded_at DESC) = 1
),
first_jobs AS (
    SELECT cluster, MIN(submitted_at) AS submitted_at FROM stored.attempts WHERE scheduler = 'slurm' GROUP BY cluster
),
loaded_since AS (
    -- What was before the first job that is known was purged, or there was no cluster yet.
    SELECT
        w.cluster,
        w.source,
        GREATEST(MIN(w.covers_from), ANY_VALUE(f.submitted_at)) AS since,
        MAX(w.covers_until) FILTER (w.rows_read > 0) AS until
    FROM windows AS w
    JOIN first_jobs AS f USING (cluster)
    GROUP BY w.cluster, w.source
),
quiet AS (
    -- The newest window; if it is empty, with the empty ones before it.
    SELECT
        n.cluster,
        n.source,
        ANY_VALUE(n.rows_read) AS rows_read,
        LEAST(ANY_VALUE(n.covers_from), MIN(w.covers_from)) AS started_at,
        ANY_VALUE(n.covers_until) AS ended_at,
        ANY_VALUE(h.since) AS known_since
    FROM newest AS n
    JOIN loaded_since AS h USING (cluster, source)
    LEFT JOIN windows AS w
        ON w.cluster = n.cluster AND w.source = n.source AND w.rows_read = 0 AND w.covers_until > h.until
    GROUP BY n.cluster, n.source
),
lengths AS (
    -- Four days are long enough to compare, a weekend and a holiday among them.
    SELECT
        *,
        epoch(ended_at - started_at) / 86400 AS days,
        LEAST(epoch(ended_at - started_at) / 86400, 4) AS compared_days,
        CAST(epoch(started_at) // 3600 AS BIGINT) AS first_hour
    FROM quiet
),
usual_days AS (
    -- As long and at the same time of day, on each of the 28 days before it that are known.
    SELECT
        l.cluster,
        l.source,
        l.first_hour - 24 * (CAST(CEIL(l.compared_days) AS BIGINT) + e.day) AS first_hour,
        l.first_hour - 24 * (CAST(CEIL(l.compared_days) AS BIGINT) + e.day)
        + CAST(l.compared_days * 24 AS BIGINT) AS end_hour
    FROM lengths AS l
    CROSS JOIN (SELECT UNNEST(range(28)) AS day) AS e
    WHERE l.started_at - to_days(CAST(CEIL(l.compared_days) + e.day AS INTEGER)) >= l.known_since
),
submitted AS (
    -- What was submitted in an interval is the least that accounting showed of it.
    SELECT a.cluster, CAST(epoch(a.submitted_at) // 3600 AS BIGINT) AS hour, COUNT(*) AS jobs
    FROM stored.attempts AS a
    JOIN quiet AS q USING (cluster)
    WHERE a.scheduler = 'slurm' AND a.submitted_at > q.started_at - INTERVAL 33 DAY AND a.submitted_at < q.started_at
    GROUP BY ALL
),
busy AS (
    SELECT t.cluster, t.source, t.first_hour, COALESCE(SUM(s.jobs), 0) AS jobs
    FROM usual_days AS t
    LEFT JOIN submitted AS s ON s.cluster = t.cluster AND s.hour >= t.first_hour AND s.hour < t.end_hour
    GROUP BY t.cluster, t.source, t.first_hour
),
usual AS (
    -- Seven of them in a row have a weekend among them: a cluster that rests then is no surprise.
    SELECT b.cluster, b.source, MIN(b.jobs) / ANY_VALUE(l.compared_days) AS least_a_day
    FROM busy AS b
    JOIN lengths AS l USING (cluster, source)
    GROUP BY b.cluster, b.source
    HAVING COUNT(*) >= 7
),
silent AS (
    -- Hundreds of rows a day do not stop by chance; with fewer, a long weekend is over after three days.
    SELECT
        l.cluster,
        l.source,
        'silent' AS kind,
        format(
            'only {:d} rows for {} to {}, where at least {:.0f} a day are usual: did an upgrade, a purge or a permission hide jobs?',
            l.rows_read,
            strftime(l.started_at AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M'),
            strftime(l.ended_at AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M'),
            u.least_a_day
        ) AS message
    FROM lengths AS l
    JOIN usual AS u USING (cluster, source)
    WHERE l.rows_read / l.days < 0.05 * u.least_a_day
      AND (u.least_a_day >= 100 OR (l.days > 3 AND u.least_a_day >= 10))
),
times AS (
    -- Live loads: commands, slurmrestd, Prometheus. What people load by hand, they load when they like.
    SELECT DISTINCT cluster, source, loaded_at
    FROM loads
    WHERE transport NOT IN ('file', 'stdin')
),
steps AS (
    SELECT
        cluster,
        source,
        loaded_at,
        epoch(loaded_at - LAG(loaded_at) OVER (PARTITION BY cluster, source ORDER BY loaded_at)) AS step_s
    FROM times
),
read_again AS (
    -- Only what used to come again and again can stay away.
    SELECT cluster, source, MEDIAN(step_s) AS step_s
    FROM steps
    GROUP BY cluster, source
    HAVING COUNT(DISTINCT CAST(loaded_at AT TIME ZONE 'UTC' AS DATE)) >= 3
),
last_read AS (
    SELECT cluster, source, MAX(loaded_at) AS loaded_at, MAX(MAX(loaded_at)) OVER (PARTITION BY cluster) AS others_at
    FROM loads
    GROUP BY cluster, source
),
stale AS (
    SELECT
        l.cluster,
        l.source,
        'stale' AS kind,
        format(
            'last read {}, while others were read until {}: is it still being ingested?',
            strftime(l.loaded_at AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M'),
            strftime(l.others_at AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M')
        ) AS message
    FROM last_read AS l
    JOIN read_again AS r USING (cluster, source)
    WHERE epoch(l.others_at - l.loaded_at) > GREATEST(2 * 86400, 4 * r.step_s)
),
requests AS (
    -- The same again: a request to Slurm, whatever its time, or files whose names differ in their numbers only.
    SELECT
        cluster,
        source,
        COALESCE(request, regexp_replace(origin, '[0-9]+', '#', 'g')) AS request,
        loaded_at,
        columns
    FROM loads
    WHERE
        source IN ('slurm.accounting', 'slurm.events', 'slurm.associations', 'slurm.qos', 'slurm.transactions')
        AND len(columns) > 0
        AND transport <> 'stdin'
),
recent AS (
    SELECT *, MIN(loaded_at) OVER (PARTITION BY cluster, source, request) AS first_at
    FROM (
        SELECT *, MAX(loaded_at) OVER (PARTITION BY cluster, source, request) AS newest_at
        FROM requests
        QUALIFY loaded_at > newest_at - INTERVAL 7 DAY
    )
),
request_columns AS (
    SELECT
        cluster,
        source,
        request,
        list_distinct(flatten(LIST(columns) FILTER (loaded_at = newest_at))) AS now_there,
        list_distinct(flatten(LIST(columns) FILTER (loaded_at < newest_at))) AS once_there,
        list_distinct(flatten(LIST(columns) FILTER (loaded_at = first_at))) AS first_there
    FROM recent
    GROUP BY cluster, source, request
    HAVING COUNT(*) FILTER (loaded_at < newest_at) > 0
),
differences AS (
    SELECT
        *,
        list_sort(list_filter(once_there, name -> NOT list_contains(now_there, name))) AS gone,
        list_sort(list_filter(now_there, name -> NOT list_contains(first_there, name))) AS come
    FROM request_columns
),
columns_changed AS (
    SELECT
        cluster,
        source,
        'columns' AS kind,
        format('the columns of {} changed within a week:', request)
        || CASE WHEN len(gone) > 0 THEN ' gone: ' || array_to_string(gone, ', ') || '.' ELSE '' END
        || CASE WHEN len(come) > 0 THEN ' new: ' || array_to_string(come, ', ') || '.' ELSE '' END
        || ' Was Slurm upgraded?' AS message
    FROM differences
    WHERE len(gone) > 0 OR len(come) > 0
)
SELECT * FROM silent
UNION ALL
SELECT * FROM stale
UNION ALL
SELECT * FROM columns_changed;
