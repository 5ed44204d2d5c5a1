-- One row is a cluster of which accounting was loaded.
SELECT DISTINCT cluster FROM loads WHERE source = 'slurm.accounting' ORDER BY cluster;
