-- One row is what GPUs did on nodes that several attempts of one user shared, on a UTC day from one day to before another, as whole numbers.
SELECT * FROM user_activity_days
WHERE cluster = $cluster AND day >= $first AND day < $last
ORDER BY day, "user";
