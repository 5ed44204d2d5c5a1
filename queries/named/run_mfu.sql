-- One row is the model FLOP utilisation of a run under one convention, as it was stored for exactly this window.
SELECT * FROM mfu
WHERE cluster = $cluster AND run_id = $run_id AND window_from = $since AND window_until = $until
ORDER BY convention;
