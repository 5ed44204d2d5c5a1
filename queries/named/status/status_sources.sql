-- One row is a source of a cluster with what came of its rows and when it last spoke.
SELECT * FROM data_quality ORDER BY cluster, source;
