-- One row is a UTC day (its number since 1970) on which attempts of a cluster were submitted: a digest of which nodes each of them held.
WITH lists AS (SELECT node_list, hash(nodes) AS digest FROM node_lists)
SELECT
    CAST(floor(epoch_us(a.submitted_at) / 86400000000) AS BIGINT) AS day,
    bit_xor(hash(a.scheduler, a.job_id, a.submitted_at, l.digest)) AS nodes
FROM stored.attempts AS a
JOIN lists AS l USING (node_list)
WHERE a.cluster = $cluster
GROUP BY day;
