-- Writes stored.attempts: users of the attempts of Determined's pods, by the export of its allocations; pods have no user.
UPDATE stored.attempts AS a
SET
    "user" = COALESCE(a."user", d."user"),
    account = COALESCE(d.workspace, a.account),
    "partition" = COALESCE(a."partition", d.resource_pool)
FROM (
    SELECT
        cluster,
        regexp_extract(allocation_id, '^(.*)\.\d{1,9}$', 1) AS task,
        MAX("user") AS "user",
        MAX(workspace) AS workspace,
        MAX(resource_pool) AS resource_pool
    FROM determined_allocations
    GROUP BY ALL
) AS d
SEMI JOIN pods AS p ON p.cluster = d.cluster AND p.gang = 'Task/' || d.task
WHERE a.cluster = d.cluster AND a.scheduler = 'kubernetes' AND a.name = d.task;
