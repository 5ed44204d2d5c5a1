-- One row is an attempt with the run it belongs to.
CREATE OR REPLACE VIEW run_of_attempt AS
SELECT
    a.*,
    r.run_id,
    r.attempt_no,
    r.joined_by
FROM attempts AS a
JOIN run_attempts AS r USING (cluster, scheduler, job_id, submitted_at);
