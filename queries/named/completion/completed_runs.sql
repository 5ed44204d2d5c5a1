-- One row is a run whose id begins with `prefix`, the one that was submitted last first; ids begin with those of jobs.
SELECT run_id FROM runs WHERE starts_with(run_id, $prefix) ORDER BY first_submitted_at DESC, run_id LIMIT 200;
