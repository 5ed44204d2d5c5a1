-- warn: rows were rejected; see them with: trackside export rejects
SELECT cluster, source, COUNT(*) AS rows_rejected
FROM rejects -- a log that was cut and is loaded again, longer, takes its reject back
GROUP BY ALL;
