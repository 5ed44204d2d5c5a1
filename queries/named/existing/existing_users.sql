-- One row is a user in an account in the warehouse that is being loaded (the frame `incoming`).
SELECT u.* FROM users AS u SEMI JOIN incoming AS i USING (cluster, "user", account);
