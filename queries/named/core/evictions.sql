-- One row is an eviction by Kueue in the window: of which job, for whom, and when its pods were gone.
SELECT * FROM evictions
WHERE cluster = $cluster AND evicted_at > $since AND evicted_at <= $until
ORDER BY evicted_at, uid;
