"""Play the scenario of `kinds` once, and keep what Slurm says of it: `python -m tests.lab.scenario.capture FOLDER`.

This made the `kinds-*` samples of tests/data/slurm. Paths of the lab become /lab, and the kernel's name goes.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from tests.lab.cluster import SlurmLab
from tests.lab.processes import now
from tests.lab.scenario.dumps import accounting_dumps, around_dumps
from tests.lab.scenario.kinds import run_kinds
from tests.lab.scenario.known import known

TRUTH = "kinds.truth.json"


def capture(folder: Path) -> None:
    """Write all samples, and the truth beside them."""
    with SlurmLab() as lab:
        kinds = run_kinds(lab)
        began = now()
        texts = accounting_dumps(lab, kinds.ids) | around_dumps(lab)
        truth = [each.as_json() for each in known(kinds, (began, now()))]
        texts[TRUTH] = "[\n" + ",\n".join(map(json.dumps, truth)) + "\n]\n"
        base = str(lab.base)
    for name, text in texts.items():
        (folder / name).write_text(re.sub(r"(?m)^ *OS=.*\n", "", text.replace(base, "/lab")))


if __name__ == "__main__":
    capture(Path(sys.argv[1]))
