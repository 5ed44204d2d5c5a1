-- One row is the last computation of a cluster: the time its ledger covers and the constants it used.
SELECT cluster, since, until, computed_at, data_version, constants FROM computes WHERE cluster = $cluster;
