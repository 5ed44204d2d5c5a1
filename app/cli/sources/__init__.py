"""The sources of `trackside ingest`: one file each, with `add_parser(subparsers)` and `run(options)`."""
