"""The process that runs a person's SQL starts quickly: it imports no frames and no arrays."""

import json
import subprocess
import sys

PROGRAM = """
import json, sys
from queries.pandas_block import block_import
block_import("numpy")
from queries import warehouse
from queries.sandbox import child, gate, results
print(json.dumps([name for name, module in sys.modules.items() if module is not None]))
"""


def test_process_imports_neither_polars_nor_numpy() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    packages = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert {"duckdb", "pyarrow"} <= packages
    assert not packages & {"numpy", "polars", "pandas"}
