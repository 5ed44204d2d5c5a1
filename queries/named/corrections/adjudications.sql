-- One row is a person's correction, in the order in which they were made; withdrawn ones too.
SELECT
    id,
    cluster,
    made_at,
    author,
    reason,
    kind,
    subject,
    before,
    after,
    withdrawn_at,
    withdrawn_by,
    withdrawn_reason
FROM adjudications
WHERE $cluster IS NULL OR cluster = $cluster
ORDER BY made_at, id;
