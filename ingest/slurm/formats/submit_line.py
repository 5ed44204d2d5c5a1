"""The command line of a submission without the values of variables, which may be tokens and passwords.

`sbatch --export=ALL,WANDB_API_KEY=... job.sh` is kept by Slurm as it was typed, and shown to everybody who may see the
job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

KEPT_VARIABLES: Final = r"RUN_ID|RUN_NAME|\bWANDB_RUN_GROUP|\bWANDB_NAME"
"""How the names of variables end (regular expression) whose values are kept, because they may name the run of a job.

TRACKSIDE_RUN_ID, WANDB_RUN_ID and MLFLOW_RUN_ID are among them. `run_env` in [rules] is not applied while a file is
read, and every other value is removed then: the name has to end in RUN_ID or RUN_NAME.
"""

BLANK: Final = "..."
"""Placeholder for a removed value."""

_NAME: Final = r"[A-Za-z_]\w*"
_BEFORE: Final = r"(^|[^\w./-])"  # --export=NAME=x and "NAME=x", but no option (--mem=x) and no path
_COMMA: Final = "\ue000"
_EQUALS: Final = "\ue001"
_VALUE: Final = rf"""(?:'[^']*'?|"[^"]*"?)?[^\s{_COMMA}]*"""


def without_values(lines: pl.Series) -> pl.Series:
    """Submit lines in which every NAME=value reads NAME=..., but for the variables that are kept.

    A value ends at a blank, or at a comma followed by another NAME=: what follows any other comma may belong
    to it. Slurm joins the words of a line by blanks and keeps no quotes, so of a value with a blank in it the rest
    stays.

    >>> import polars as pl
    >>> lines = pl.Series(["sbatch --export=ALL,KEY=s3cret,RUN_ID=llama-7 job.sh", "srun --mem=4G PASS='a b' x", None])
    >>> without_values(lines).to_list()
    ['sbatch --export=ALL,KEY=...,RUN_ID=llama-7 job.sh', 'srun --mem=4G PASS=... x', None]
    """
    giving = lines.str.contains(rf"{_BEFORE}{_NAME}=").fill_null(value=False)
    if not giving.any():
        return lines
    blanked = (
        lines.filter(giving)
        .str.replace_all(rf",({_NAME}=)", _COMMA + "${1}")
        .str.replace_all(rf"({KEPT_VARIABLES})=", "${1}" + _EQUALS)
        .str.replace_all(rf"{_BEFORE}({_NAME})={_VALUE}", "${1}${2}=" + BLANK)
        .str.replace_all(_COMMA, ",", literal=True)
        .str.replace_all(_EQUALS, "=", literal=True)
    )
    return lines.scatter(giving.arg_true(), blanked)
