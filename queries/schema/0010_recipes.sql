-- How a run is trained, beside its model: what scaling is judged by.

ALTER TABLE run_sessions ADD COLUMN recipe VARCHAR; -- name of the recipe, as the log states it
ALTER TABLE run_sessions ADD COLUMN global_batch DOUBLE; -- samples of a step, on all GPUs together
ALTER TABLE run_sessions ADD COLUMN learning_rate DOUBLE; -- peak learning rate of the schedule
ALTER TABLE run_sessions ADD COLUMN time_factor DOUBLE; -- what a benchmark's rules multiply the run's time to train by (MLPerf: scaling.json); null: nothing
