-- One row is the model FLOP utilisation of a run under one convention, as it was stored for exactly this window; where products are in several data types, over the peak of each, the higher one first.
SELECT * FROM mfu
WHERE measure = 'mfu' AND cluster = $cluster AND run_id = $run_id AND window_from = $since AND window_until = $until
ORDER BY convention, peak_flops DESC;
