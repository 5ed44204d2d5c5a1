-- One row is a UTC day of a cluster of which the activity of GPUs is stored, and the digests of the files of samples that it was made of.
SELECT day, hourly, made_of FROM activity_days WHERE cluster = $cluster ORDER BY day;
