-- Writes gpu_hours: takes out the rows before `$before`.
DELETE FROM gpu_hours WHERE ts < $before;
