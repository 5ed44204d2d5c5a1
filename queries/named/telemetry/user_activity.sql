-- One row is what GPUs did on nodes that several attempts of one user shared, in all of the computed time.
SELECT * FROM user_activity WHERE cluster = $cluster ORDER BY "user";
