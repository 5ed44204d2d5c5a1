-- One row is a change of who may use a cluster: users, associations, accounts or coordinators were added, removed or renamed before a moment.
SELECT cluster, ts, actor, action, subject, detail
FROM transactions
WHERE cluster = $cluster AND ts < $until
  AND action IN ('Add Associations', 'Remove Associations', 'Remove Users', 'Remove Accounts', 'Modify Users',
    'Add Account Coord', 'Remove Account Coords')
ORDER BY ts, action, subject, detail, actor;
