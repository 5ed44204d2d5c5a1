-- One row is a window that results are stored of, with its name: all, 28d and 7d end with the data, others are months (UTC).
SELECT
    w.cluster,
    CASE
        WHEN w.window_from = c.since AND w.window_until = c.until THEN 'all'
        WHEN w.window_until = c.until AND w.window_from = c.until - INTERVAL 28 DAY THEN '28d'
        WHEN w.window_until = c.until AND w.window_from = c.until - INTERVAL 7 DAY THEN '7d'
        ELSE strftime(w.window_from, '%Y-%m')
    END AS "window",
    w.window_from,
    w.window_until,
    c.computed_at
FROM result_windows AS w
JOIN computes AS c USING (cluster)
ORDER BY ALL;
