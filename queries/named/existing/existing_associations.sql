-- One row is an association in the warehouse that is being loaded (the frame `incoming`).
SELECT a.* FROM associations AS a SEMI JOIN incoming AS i USING (cluster, account, "user", "partition");
