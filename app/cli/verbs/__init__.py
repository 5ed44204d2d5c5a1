"""The verbs of the command line: one file each, here or in a room, with `add_parser(subparsers)` and `run(options)`."""
