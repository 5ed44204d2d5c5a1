-- One row is a cluster of which an inventory was read.
SELECT DISTINCT cluster FROM nodes;
