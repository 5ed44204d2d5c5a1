-- warn: rows were rejected; see them with: trackside export rejects
SELECT cluster, source, rows_read, rows_rejected FROM data_quality WHERE rows_rejected > 0;
