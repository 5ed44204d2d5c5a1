-- One row is a node that was flagged over the 28 days before a moment, or over all the data where these are fewer: lemon or suspect, and its attributed failures.
SELECT node, verdict, failures
FROM node_scores
WHERE cluster = $cluster AND window_until = $until AND verdict <> 'none'
QUALIFY window_from = MIN(window_from) OVER ()
ORDER BY node;
