-- warn: run logs and tensor activity do not fit together (trackside show mfu --by proxy): are the log's parameters, tokens, GPUs and data type right?
-- of: FROM mfu_proxies WHERE disagrees
SELECT cluster, run_id, gpu_model, dtype, ROUND(mfu_log, 3) AS mfu_by_logs, ROUND(hfu_est, 3) AS hfu_by_telemetry, note
FROM mfu_proxies
WHERE disagrees AND run_id <> ''
ORDER BY ALL;
