-- Writes node_hours: takes out the rows before `$before`.
DELETE FROM node_hours WHERE ts < $before;
