"""A fleet: many clusters, each in a directory of its own, brought up to date by many workers and committed to one lake.

`clusters` finds them, `task` is what one worker does for one of them, `coordinator` hands tasks out and collects what
became of them. `here` and `dask_workers` are what runs tasks, `join` is a worker process. Dask is imported in these
last two, and only there. `own_process` is what the worker processes import first.
"""
