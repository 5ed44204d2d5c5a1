-- One row is a name that a source has for a node of a cluster, and since when.
SELECT name, valid_from, node AS alias FROM node_aliases
WHERE cluster = $cluster AND source = $source
ORDER BY name, valid_from;
