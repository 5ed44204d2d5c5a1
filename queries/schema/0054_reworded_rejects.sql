-- Reasons of rejected rows in the words of this version: a row that is loaded again has the reason that is stored, so it is counted once.
UPDATE rejects
SET reason = CASE
    WHEN reason = 'it stands above the header' THEN 'it precedes the header'
    WHEN reason = 'it stands above sdiag''s' THEN 'it precedes sdiag''s output'
    WHEN reason LIKE '% --cluster NAME says which' THEN regexp_replace(reason, ' says which$', '')
    WHEN reason LIKE 'no JSON that others read: %' THEN regexp_replace(reason, '^no JSON that others read', 'not valid JSON')
    ELSE replace(
        replace(reason, '; which text holds the delimiter cannot be decided', '; the text that holds the delimiter is ambiguous'),
        ', which cannot be: ',
        ', which is impossible: '
    )
END
WHERE reason LIKE 'it stands above %'
    OR reason LIKE '% --cluster NAME says which'
    OR reason LIKE 'no JSON that others read: %'
    OR reason LIKE '%; which text holds the delimiter cannot be decided'
    OR reason LIKE '%, which cannot be: %';
