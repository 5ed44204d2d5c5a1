-- One row is a node that had GPUs at some time, as the ledger has it.
SELECT DISTINCT cluster, node
FROM inventory
WHERE cluster = $cluster AND gpus > 0;
