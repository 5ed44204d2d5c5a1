"""Compare the outputs of two checkouts of this repository, byte for byte.

    python -m tests.compare_checkouts OLD NEW [--expect FILE]

OLD and NEW are checkouts, each with its interpreter in `.venv` (else name one by `--old-python`, `--new-python`). In
each of them the same commands run with the same clock: a small simulated cluster and the captures in `tests/data` are
loaded and computed, and everything is printed, exported, reported and served. What each of them wrote is compared:

    simulate/   the files of the simulated cluster       report/     the SLA report, HTML and JSON
    ingest/     what a load prints                       grafana/    the boards
    tables/     every table and view of both warehouses  serve/      `/metrics` and `/healthz`
    show/       every question, with and without --by    messages/   what goes to stderr
    verify/ status/ doctor/ adjudicate/ compute/         status/     exit statuses

It prints a line for each folder without differences and one for each difference, and exits with 1 where one is not
expected. A file of expected differences has one pattern a line, `PART: WHERE  # reason`, with `*` for anything:

    tables/*/loads.parquet: column transport  # a load records how it was transported
    grafana/*: $.panels*.title                # titles are plain English now

OLD may be the folder of outputs that an earlier run kept (`--keep FOLDER` writes `FOLDER/old` and `FOLDER/new`).
"""
