-- Writes users: the administrator level that the latest account change gives a user, where one has it.
UPDATE users AS u
SET admin_level = CASE changes_of_level.latest.code WHEN '2' THEN 'Operator' WHEN '3' THEN 'Administrator' ELSE 'None' END
FROM (
    SELECT cluster, name, MAX({'ts': ts, 'code': code}) AS latest
    FROM (
        SELECT
            cluster,
            ts,
            regexp_extract(detail, '\badmin_level=(\d)', 1) AS code,
            -- Slurm names a new user plainly, and those that it changes in a condition: (name='alice' || name='bob').
            UNNEST(
                CASE action
                    WHEN 'Add Users' THEN [subject]
                    ELSE regexp_extract_all(subject, '\bname=''([^'']*)''', 1)
                END
            ) AS name
        FROM transactions
        WHERE action IN ('Add Users', 'Modify Users')
    )
    WHERE code IN ('1', '2', '3')
    GROUP BY cluster, name
) AS changes_of_level
WHERE u.cluster = changes_of_level.cluster AND u."user" = changes_of_level.name;
