-- One row is a cluster: the time that its loads cover (seconds since 1970), its sources, and what was computed of it.
SELECT
    l.cluster,
    epoch(MIN(l.covers_from)) AS covers_from,
    epoch(MAX(l.covers_until)) AS covers_until,
    list(DISTINCT l.source ORDER BY l.source) AS sources,
    epoch(ANY_VALUE(c.since)) AS computed_from,
    epoch(ANY_VALUE(c.until)) AS computed_until,
    COUNT(*) FILTER (l.loaded_at > c.computed_at) AS newer_loads
FROM loads AS l
LEFT JOIN computes AS c USING (cluster)
GROUP BY l.cluster
ORDER BY l.cluster;
